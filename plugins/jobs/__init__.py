"""Reminders and jobs: sent, or run as a turn, at a set time or when a program calls them.

Jobs are rows (`record.py`). Once a minute, and when the next one is due, `Jobs.tick` fires the due
jobs. A reminder goes to the outbox and a prompt to the inbox in the transaction that changes its
row. From there a prompt is a message like any other: it waits for its turn, and is resumed after a
crash. The limits of its turn are set in `JobTurns.prepare`.
"""
