"""The contract, for the messengers whose platforms are real servers: Dovecot and Synapse."""

from __future__ import annotations

import pytest

from tests.channels.contract import test_contract as contract
from tests.channels.contract.stages import SERVERS
from tests.channels.contract.test_contract import runs_hello, stage

__all__ = ["runs_hello", "stage"]

pytestmark = pytest.mark.usefixtures("processes")

globals().update(
    (name, test)
    for name, test in vars(contract).items()
    if name.startswith("test_") and contract.find_stages(test, SERVERS)
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the platforms that have its requirements."""
    contract.run_over(metafunc, SERVERS)
