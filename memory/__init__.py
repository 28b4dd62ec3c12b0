"""The record of what was said, and the view of it that the model sees. The only layer with SQL."""
