"""Collectives as traffic tables."""

from railwright.workload.collectives.build import ALGORITHMS, collective_traffic
from railwright.workload.collectives.meaning import COLLECTIVES, bus_factor, collective_name

__all__ = ["ALGORITHMS", "COLLECTIVES", "bus_factor", "collective_name", "collective_traffic"]
