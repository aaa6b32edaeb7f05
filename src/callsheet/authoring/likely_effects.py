"""What a tool of which nothing is declared most likely does, by the verb in its name.

Only for judging plans and runs while they are written: what a run may do, repeat or prove follows from what
is declared alone.
"""

from __future__ import annotations

from callsheet.ir import Effect

_READING = frozenset(
    ("LIST", "GET", "READ", "FIND", "SEARCH", "FETCH", "QUERY", "SHOW", "DESCRIBE", "LOOKUP", "VIEW", "CHECK")
)


def likely_effect(tool: str, declared: Effect) -> Effect:
    """The declared effect of a tool, or READ for one of an unknown effect that is called as such tools are.

    >>> likely_effect("github__list_issues", Effect.UNSAFE), likely_effect("LIST_ISSUES", Effect.IDEMPOTENT)
    (<Effect.READ: 'read'>, <Effect.IDEMPOTENT: 'idempotent'>)
    """
    verb = tool.rpartition("__")[2].partition("_")[0].upper()
    return Effect.READ if declared is Effect.UNSAFE and verb in _READING else declared
