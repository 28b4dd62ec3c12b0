"""Accounts: people sign in on the page, by a link that works once (`/invite`), a password or the
page's token, and programs use OpenAI's protocol by keys (`main.py key`).

Without this folder nobody signs in: the page is open at the bot's own machine alone.
"""
