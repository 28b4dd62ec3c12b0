"""Accounts: people sign in on the page by a single-use link (`/invite`), a password or the page's
token. Programs use OpenAI's protocol by keys (`main.py key`).

Without this folder nobody can sign in: the page is open on the bot's own machine only.
"""
