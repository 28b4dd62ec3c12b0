"""The section `voice`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from memory.setting_notes import FIXED, TURN
from plugins.features import SettingsSection


class VoiceSettings(SettingsSection):
    """The section `voice`: transcription of voice messages, and spoken answers."""

    SECTION: ClassVar[str] = "voice"
    ORDER: ClassVar[int] = 30
    model_config = ConfigDict(allow_inf_nan=False)

    model: Annotated[
        str, StringConstraints(pattern=r"^([^\s\p{C}]+( [^\s\p{C}]+)*)?$", max_length=200)
    ] = Field(
        default="",
        description="The model that turns voice messages into text (whisper-1, for example); "
        "empty: they are not transcribed.",
        json_schema_extra={"wants": "a model's name", **TURN},
    )
    language: Annotated[str, StringConstraints(pattern=r"^([a-z]{2,3})?$")] = Field(
        default="",
        description="The language in which people speak, as a hint; empty: it is detected.",
        json_schema_extra={"wants": "a code such as en, de or yue", "here": True, **TURN},
    )
    base_url: Annotated[
        str, StringConstraints(pattern=r"^(https?://[^\s\p{C}]+)?$", max_length=1_000)
    ] = Field(
        default="",
        description="The address of the endpoint for voice; empty means OPENAI_BASE_URL, or "
        "OpenAI's.",
        json_schema_extra={"wants": "an address with http:// or https://", **FIXED},
    )
    api_key: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]*$", max_length=1_000)] = Field(
        default="",
        repr=False,
        description="The key for that endpoint; empty means OPENAI_API_KEY where no address of its "
        "own is set.",
        json_schema_extra={
            "wants": "{{secret.NAME}}, with NAME in the environment or .env",
            **FIXED,
        },
    )
    reply: Literal["off", "same", "always"] = Field(
        default="off",
        description="Read answers aloud, beside their text. same: those to voice messages.",
        json_schema_extra={"here": True, **TURN},
    )
    speech_model: Annotated[
        str, StringConstraints(pattern=r"^([^\s\p{C}]+( [^\s\p{C}]+)*)?$", max_length=200)
    ] = Field(
        default="",
        description="The model that reads answers aloud (gpt-4o-mini-tts, for example); empty: "
        "answers are not read aloud.",
        json_schema_extra={"wants": "a model's name", **TURN},
    )
    speaker: Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]+$", max_length=200)] = Field(
        default="alloy",
        description="The voice in which they are read, as its model calls it.",
        json_schema_extra={"wants": "a voice's name", "here": True, **TURN},
    )
    speech_price: Annotated[float, Field(ge=0, le=10_000)] = Field(
        default=0,
        description="Price of a million characters that are read aloud; 0: unknown.",
        json_schema_extra={"wants": "a number from 0 to 10000", "unit": "US dollars"},
    )
    minute_price: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0,
        description="Price of a transcribed minute, for models that are not paid by "
        "tokens; 0: unknown.",
        json_schema_extra={"wants": "a number from 0 to 100", "unit": "US dollars"},
    )
