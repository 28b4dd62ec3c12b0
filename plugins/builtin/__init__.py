"""The commands and tools that Parley comes with; plugins like any other."""
