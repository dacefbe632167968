"""The shapes of the backend."""
