"""Hook rules (Digitorn): on an event, under a condition, an action. Their engine is a plugin.

What a rule says is here, because the settings check it (`bot/settings`) and the engine obeys it
(`plugins/builtin/rules.py`).
"""

from plugins.features import Fault
from plugins.rules.rule import AUTO_COMPACT, Rule, RuleFaults, auto_compact, find_compacting, parse

__all__ = [
    "AUTO_COMPACT",
    "Fault",
    "Rule",
    "RuleFaults",
    "auto_compact",
    "find_compacting",
    "parse",
]
