"""What a person can set: composed from each room's section, checked, and asked for at each step."""

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
