"""Reminders and jobs: what is told, or runs as a turn, at a time of its own, or when it is called.

Jobs are rows (`memory/record/jobs.py`); once a minute, and when the next one is due, `Jobs.tick`
fires what is due. A reminder goes to the outbox and a prompt to the inbox in the transaction that
moves its row on. From there a prompt is a message like any other: it waits for its turn, and goes
on after a crash. Whatever it may not do is in what its turn is answered with (`JobTurns.prepare`).
"""
