"""The servers that implementations need."""

from tests.cluster.conftest import broker

__all__ = ["broker"]
