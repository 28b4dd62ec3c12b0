"""The servers of a cluster, started once for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.rabbitmq_server import IS_INSTALLED, RabbitMQServer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQServer]:
    """A message broker. Each test takes names of its own in it (`kin`)."""
    if not IS_INSTALLED:
        pytest.skip("RabbitMQ is not installed (apt-get install rabbitmq-server)")
    with RabbitMQServer(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture
def servers(
    broker: RabbitMQServer, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The settings that name the servers, which run, and are empty but for other tests' queues."""
    monkeypatch.setenv("BROKER_URL", broker.url)
    monkeypatch.setenv("DATABASE_URL", postgresql)
    return {
        "broker": "{{secret.BROKER_URL}}",
        "database": "{{secret.DATABASE_URL}}",
        "shutdown_timeout": 20,
    }
