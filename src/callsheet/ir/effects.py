"""Effects of tools: what a call may change, which determines ordering, retries and recovery after a crash.

The class of a tool says what kind of thing a call does, which determines what a policy assumes of it.
"""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """The effect of a tool as declared by the operator; `UNSAFE` if undeclared.

    The rules for each are in section 2 of the durability contract.
    """

    PURE = "pure"
    """Depends on its arguments alone and changes nothing."""
    READ = "read"
    """Reads the outside world and changes nothing."""
    IDEMPOTENT = "idempotent"
    """Changes the world; repeating it has no further effect."""
    KEYED = "keyed"
    """Changes the world at most once per idempotency key."""
    PROBE = "probe"
    """Changes the world; a probe can tell whether it happened."""
    UNSAFE = "unsafe"
    """Anything else: never repeated without a decision."""
    LLM = "llm"
    """A model's answer: may be requested again, at a cost."""

    @property
    def only_reads(self) -> bool:
        """Whether a call changes nothing in the world."""
        return self in _ONLY_READS

    @property
    def may_rerun(self) -> bool:
        """Whether a call in doubt may be made again without a decision."""
        return self in _MAY_RERUN


class ToolClass(StrEnum):
    """What kind of thing a tool does, as the operator declares it or a policy says."""

    COMPUTES = "computes"
    """Its result depends on its arguments alone."""
    READS = "reads"
    """It looks things up and changes nothing."""
    WRITES = "writes"
    """It changes what is in the workspace or an account of the user's; it can be undone, and tells nobody."""
    SENDS = "sends"
    """It tells somebody something."""
    PAYS = "pays"
    """It pays or orders."""
    DELETES = "deletes"
    """It removes what cannot be brought back."""
    RUNS = "runs"
    """It runs code or commands."""
    ADMINISTERS = "administers"
    """It changes who may do what: accounts, passwords, members, permissions."""


class OnInDoubt(StrEnum):
    """What to do about a call with unknown outcome whose effect forbids repeating it without a decision."""

    ASK = "ask"
    """The run waits until a person decides."""
    FAIL = "fail"
    """The call counts as failed, without a retry: ON_FAIL applies."""
    RETRY = "retry"
    """The call is made again under the same idempotency key; after several lost answers, ask."""


_ONLY_READS = frozenset({Effect.PURE, Effect.READ, Effect.LLM})
_MAY_RERUN = _ONLY_READS | {Effect.IDEMPOTENT, Effect.KEYED}
_CLASS_OF_EFFECT = {Effect.PURE: ToolClass.COMPUTES, Effect.READ: ToolClass.READS}


def class_of_effect(effect: Effect) -> ToolClass | None:
    """The class that follows from an effect; None if the effect does not say what is done.

    >>> class_of_effect(Effect.READ), class_of_effect(Effect.IDEMPOTENT)
    (<ToolClass.READS: 'reads'>, None)
    """
    return _CLASS_OF_EFFECT.get(effect)
