"""The settings that a person can change: composed from each package's section, validated, and read
at each step."""

from bot.settings.book import SettingsStore
from bot.settings.layers import Layers, Secrets, load_layers
from bot.settings.schema import SettingError, Settings

__all__ = [
    "Layers",
    "Secrets",
    "SettingError",
    "Settings",
    "SettingsStore",
    "load_layers",
]
