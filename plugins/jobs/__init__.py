"""Reminders and jobs: told, or run as a turn, at a time of their own or when a program calls them.

Jobs are rows (`record.py`); once a minute, and when the next one is due, `Jobs.tick` fires what is
due. A reminder goes to the outbox and a prompt to the inbox in the transaction that moves its row
on. From there a prompt is a message like any other: it waits for its turn, and goes on after a
crash. The limits of its turn are set in `JobTurns.prepare`.
"""
