"""Readers of documents, one module a format; imported only in the process that reads one.

Each reader yields `Mark`s (what the page that begins is called) and lines. A part that can't be
read costs that part: a line in parentheses stands for it. What is never text (pictures, embedded
files) is counted, and said in a line at the end of its page.
"""
