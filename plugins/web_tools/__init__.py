"""The web for the model: search by a provider of the owner's choice, and reading of public pages.

`feature` has the tools and queries the provider, `pages` reads a page and extracts its main
content in a separate process (`page_reader`).
"""
