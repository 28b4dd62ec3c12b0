"""The terminal: a person's first contact with Parley."""
