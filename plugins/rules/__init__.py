"""Hook rules (Digitorn): an event, a condition, and an action. Their engine is a plugin.

The format of a rule is here, because the settings validate it (`bot/settings`) and the engine runs
it (`plugins/builtin/rules.py`).
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
