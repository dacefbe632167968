"""Several jobs on one cluster: where they are placed, and what they do to each other."""
