"""Voice: voice messages are transcribed before their turn, and answers are read aloud.

`feature` does both, and calls a server by OpenAI's protocol.
"""
