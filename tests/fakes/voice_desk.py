"""The former name of `voice_server`."""

from tests.fakes.voice_server import OGG

__all__ = ["OGG"]
