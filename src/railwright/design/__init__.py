"""From intent to tables."""
