"""What was said and is kept: the store, its tables, search and files."""
