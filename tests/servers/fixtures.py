"""The fixtures of real servers, each started once for a test process when a test first requests it.

Their modules are imported only then: a run of the fast tests needs none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster.rabbitmq_server import RabbitMQServer
    from tests.servers.mail import PostOffice
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.synapse import SynapseServer


def _server(name: str) -> Any:
    return importlib.import_module(f"tests.servers.{name}")


@pytest.fixture(scope="session")
def postgresql_server(processes: None) -> Iterator[PostgresqlServer]:
    """Yield a PostgreSQL server with a template of a bot's database."""
    with _server("postgresql").running_server() as server:
        server.make_template()
        yield server


@pytest.fixture
def postgresql(postgresql_server: PostgresqlServer) -> str:
    """Return the URL of a database with all tables, which are empty."""
    return postgresql_server.make_database()


@pytest.fixture(scope="session")
def synapse(processes: None) -> Iterator[SynapseServer]:
    """Yield a Matrix server."""
    with _server("synapse").running_synapse() as server:
        yield server


@pytest.fixture(scope="session")
def mail_servers(processes: None) -> Iterator[PostOffice]:
    """Yield Dovecot and an SMTP server; `mail` restores their state before each test."""
    with _server("mail").running_mail() as office:
        yield office


@pytest.fixture
def mail(mail_servers: PostOffice) -> PostOffice:
    """Return the mail servers in their initial state."""
    mail_servers.restore()
    return mail_servers


def _start_broker(folders: pytest.TempPathFactory) -> Iterator[RabbitMQServer]:
    module = importlib.import_module("tests.cluster.rabbitmq_server")
    if not module.IS_INSTALLED:
        pytest.skip("RabbitMQ is not installed (apt-get install rabbitmq-server)")
    with module.RabbitMQServer(folders.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture(scope="session")
def broker_server(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RabbitMQServer]:
    """Yield a message broker."""
    yield from _start_broker(tmp_path_factory)


@pytest.fixture
def own_broker(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RabbitMQServer]:
    """Yield a message broker for one test, which may kill it."""
    yield from _start_broker(tmp_path_factory)


@pytest.fixture
def broker(broker_server: RabbitMQServer) -> Iterator[RabbitMQServer]:
    """Yield the message broker, without queues of other tests."""
    yield broker_server
    broker_server.empty()
