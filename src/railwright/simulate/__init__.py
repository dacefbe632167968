"""Engines: analytic, flow and packet, over one network, one traffic and one result."""
