"""Advice on the settings of the context, by a conversation's own figures: `/context advise`.

`facts` gathers the figures, `rows` is what they say.
"""
