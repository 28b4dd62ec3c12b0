"""Hook rules (Digitorn): on an event, under a condition, an action. Their engine is a plugin.

What a rule says is here, because the settings check it (`bot/settings`) and the engine obeys it
(`plugins/builtin/rules.py`).
"""

from plugins.rules.faults import Fault, RuleFaults
from plugins.rules.rule import Rule, auto_compact, compacts, parse

__all__ = ["Fault", "Rule", "RuleFaults", "auto_compact", "compacts", "parse"]
