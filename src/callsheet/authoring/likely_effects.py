"""What a tool of which nothing is declared most likely does, by the verb in its name.

Only for judging plans and runs while they are written: what a run may do, repeat or prove follows from what
is declared alone.
"""

from __future__ import annotations

from collections.abc import Collection

from callsheet.ir import Effect

_READING = frozenset(("LIST", "GET", "READ", "FIND", "SEARCH", "FETCH", "SHOW", "DESCRIBE", "LOOKUP", "VIEW"))


def likely_effect(tool: str, declared: Effect, others: Collection[str] = ()) -> Effect:
    """The declared effect of a tool, or READ for one of an unknown effect that is called as such tools are.

    `others` are further verbs that count as reading, in capitals.

    >>> likely_effect("github__list_issues", Effect.UNSAFE), likely_effect("LIST_ISSUES", Effect.IDEMPOTENT)
    (<Effect.READ: 'read'>, <Effect.IDEMPOTENT: 'idempotent'>)
    """
    verb = tool.rpartition("__")[2].partition("_")[0].upper()
    is_likely = verb in _READING or verb in others
    return Effect.READ if declared is Effect.UNSAFE and is_likely else declared
