"""The page of the rules of LCTL, as `callsheet lctl rules` lists them."""

from __future__ import annotations

from scripts.reference.tables import table

from callsheet.trace.lctl.rules.table import RULES

_HEAD = """# Rules of LCTL

What [`callsheet lctl check`](../lctl.md) checks, and which part of the LCTL document each rule comes from.

"""


def lctl_page() -> str:
    """The page."""
    rows = [(rule.id, str(rule.level), rule.title, rule.origin) for rule in RULES.values()]
    return _HEAD + table(("rule", "level", "what is wrong", "from"), rows)
