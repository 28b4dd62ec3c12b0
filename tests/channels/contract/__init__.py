"""The contract of every channel to a messenger, tried before its platform.

Authors of channels from outside import this: `stages.STAGES["letters"] = …`, and the tests of
`test_contract.py` run over it too.
"""
