"""Voice: voice messages become text before their turn, and answers are read aloud.

`feature` does both, `endpoint` asks a server by OpenAI's protocol.
"""
