"""Texts that want to be expensive, and all that reads texts."""
