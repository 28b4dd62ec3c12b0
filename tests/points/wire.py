"""The former place of tests/whole/requests.py; to be deleted when nothing imports it any more."""

from tests.whole.requests import answered, data, events, results, with_plugin

__all__ = ["answered", "data", "events", "results", "with_plugin"]
