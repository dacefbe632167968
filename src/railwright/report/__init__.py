"""Documents that people read."""
