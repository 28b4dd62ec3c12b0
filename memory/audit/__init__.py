"""The audit of texts written by models, by comparison with their sources."""
