"""The servers of a cluster, started once for the tests of a file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.rabbitmq_server import RabbitMQServer


@pytest.fixture
def servers(
    broker: RabbitMQServer, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The settings that name the servers, which run, and are empty except for other tests'
    queues."""
    monkeypatch.setenv("BROKER_URL", broker.url)
    monkeypatch.setenv("DATABASE_URL", postgresql)
    return {
        "broker": "{{secret.BROKER_URL}}",
        "database": "{{secret.DATABASE_URL}}",
        "shutdown_timeout": 20,
    }
