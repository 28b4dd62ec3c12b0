"""Readers of documents, one module per format; imported only in the process that reads one.

Each reader yields `Mark`s (the name of the page that begins) and lines. An unreadable part is
replaced by a line in parentheses. Parts without text (pictures, embedded files) are counted in a
line at the end of their page.
"""
