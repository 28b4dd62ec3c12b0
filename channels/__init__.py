"""The channels: one file or package for each messaging platform, which translates between its
format and the bot's."""
