"""Configuration for every box, from one contract; and what existing configurations say, read back."""
