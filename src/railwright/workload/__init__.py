"""From models and collectives to traffic."""
