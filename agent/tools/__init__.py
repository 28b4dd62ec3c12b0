"""The mechanism of tools: a tool is a typed function."""
