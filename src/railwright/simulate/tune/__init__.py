"""The search for PFC, ECN and DCQCN settings with the packet engine."""
