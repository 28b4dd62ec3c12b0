"""`pytest tests/fuzz` tries the same few examples each time; for more, and others:
`pytest tests/fuzz --hypothesis-profile=long`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("long", deadline=None, max_examples=3_000)
