"""The text of documents (PDF, Word, Excel, PowerPoint, EPUB, HTML) for the tools that read files.

`feature` starts a process for each document, `reader` is that process, and `formats` has a reader
for each format.
"""
