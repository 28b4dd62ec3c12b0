"""Texts that are expensive to parse, and all parsers of texts."""
