"""The kinds of failure: those that callsheet itself raises, and which of them only their names catch."""

from __future__ import annotations

from enum import StrEnum


class Failing(StrEnum):
    """The kinds of failure that callsheet itself raises, as a handler names them; FAIL may give any other.

    Those after FAIL are failures of expressions and of COMPUTE, each Python's exception of that name.
    """

    DENIED = "DENIED"
    """A person said no; only a handler that names it catches it."""
    CANCELLED = "CANCELLED"
    """Something beside it has failed in a group that stops then; only a handler that names it catches it."""
    TOOL = "TOOL"
    TIMEOUT = "TIMEOUT"
    CAST = "CAST"
    """A result is not of the type that is written behind it."""
    SCHEMA = "SCHEMA"
    """A result is not of the tool's output schema."""
    BUDGET = "BUDGET"
    """An agent or a sub-plan has spent what its step allows it. A spent budget of the run is no failure."""
    REQUIRE = "REQUIRE"
    ROUNDS = "ROUNDS"
    """A REPEAT ran out of rounds."""
    GROUP = "ExceptionGroup"
    """What a group that stops fails with: its `fields.exceptions` are the failures of its members."""
    NOT_UNDONE = "NOT_UNDONE"
    """An inverse call of ON_FAIL UNDO failed: some of what was done is not undone."""
    FAIL = "FAIL"
    TYPE = "TYPE"
    VALUE = "VALUE"
    KEY = "KEY"
    INDEX = "INDEX"
    ATTRIBUTE = "ATTRIBUTE"
    ZERO = "ZERO"
    OVERFLOW = "OVERFLOW"
    LIMIT = "LIMIT"
    """An expression did too much work."""


IS_FAILURE = "__failure__"
"""The key that marks the record of a failure among values."""
BY_NAME = frozenset({Failing.DENIED.value, Failing.CANCELLED.value})
"""The kinds of failure that only a handler which names them catches; nothing is tried again after them."""
GRAVE = (Failing.DENIED.value, Failing.NOT_UNDONE.value)
"""The kinds that no failure beside them hides, the gravest first; nothing is tried again after them.

Of failures that end together the gravest is that of the whole, and its words have those of each other kind.
"""
