"""Matrix, by matrix-nio."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from channels.base import Channel
from channels.kit.registration import ChannelType
from channels.settings import START, StrictSettings, WebAddress

TOKEN = "MATRIX_TOKEN"


class MatrixSettings(StrictSettings):
    """The settings in the configuration under `channels.matrix`."""

    homeserver: WebAddress = Field(
        min_length=1,
        description="The server on which the bot has its account.",
        json_schema_extra={"wants": "an address like https://matrix.org", **START},
    )


def _make(settings: MatrixSettings, secrets: Mapping[str, str]) -> Channel:
    from channels.kit.messenger import Messenger  # noqa: PLC0415 - only where it runs
    from channels.matrix.matrix import Matrix  # noqa: PLC0415 - its client is an optional package

    return Messenger(Matrix(settings.homeserver, secrets[TOKEN]))


CHANNEL = ChannelType(
    "matrix",
    _make,
    MatrixSettings,
    secrets=(TOKEN,),
    packages=("matrix-nio",),
    requirements="channels/matrix/requirements.txt",
)
