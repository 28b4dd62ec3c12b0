"""The HTTP operations of the page's form “Connect a model”.

Only owners may call them. A model is tested before anything is written (`bot/connecting.py`), and
no key is ever sent back.
"""
