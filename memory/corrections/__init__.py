"""Corrections that people make, found without a model, and applied to texts with ended values."""
