"""What was said, and what the model sees of it. The only room with SQL."""
