"""The terminal: the first thing that a person sees of Parley."""
