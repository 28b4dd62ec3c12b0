"""The channels: one file or package for each messaging platform, between its shape and ours."""
