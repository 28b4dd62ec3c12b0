"""Advice on the settings of the context, based on a conversation's own figures: `/context advise`.

`facts` collects the figures, `rows` has the advice.
"""
