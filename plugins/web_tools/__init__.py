"""The web for the model: it searches at a provider of the owner's choice, and reads public pages.

`feature` has the tools, `search` asks the provider, `pages` reads a page and finds its main content
in a process of its own (`page_reader`).
"""
