"""The linter of plans."""
