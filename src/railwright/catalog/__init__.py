"""What exists: devices, adapters, servers, optics and cables, with their sources."""
