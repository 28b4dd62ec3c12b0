"""The extensions of the bot: the plugin API, the loader, and the built-in commands and tools."""
