"""The built-in commands and tools; plugins like any other."""
