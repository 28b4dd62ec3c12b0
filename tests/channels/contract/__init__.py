"""The contract of every messenger channel, tested with its platform.

Authors of external channels import this: `stages.STAGES["letters"] = …`, and the tests of
`test_contract.py` run with it too.
"""
