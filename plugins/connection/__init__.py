"""The form “Connect a model” of the page: its operations over HTTP.

Only owners may ask for them. A model is tried out before anything is written (`bot/connecting.py`),
and no key is ever sent back.
"""
