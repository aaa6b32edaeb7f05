"""Effects: what a call may do to the world, which decides about order, retries and doubt after a crash."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """The effect of a tool, declared by the operator; undeclared is `UNSAFE`.

    The rules for each are those of the durability contract, section 2.
    """

    PURE = "pure"
    """Depends on its arguments alone and changes nothing."""
    READ = "read"
    """Reads the outside world and changes nothing."""
    IDEMPOTENT = "idempotent"
    """Changes the world; doing it twice is doing it once."""
    KEYED = "keyed"
    """Changes the world at most once per idempotency key."""
    PROBE = "probe"
    """Changes the world; a probe can tell whether it happened."""
    UNSAFE = "unsafe"
    """Anything else: never repeated without a decision."""
    LLM = "llm"
    """A model's answer: may be asked for again, at a price."""

    @property
    def only_reads(self) -> bool:
        """Whether a call changes nothing in the world."""
        return self in _ONLY_READS

    @property
    def may_rerun(self) -> bool:
        """Whether a call in doubt may be made again without a decision."""
        return self in _MAY_RERUN


class OnInDoubt(StrEnum):
    """What to do about a call in doubt whose effect does not allow repeating it without a decision."""

    ASK = "ask"
    """The run waits until a person decides."""
    FAIL = "fail"
    """The call counts as failed, without a retry: ON_FAIL applies."""
    RETRY = "retry"
    """The call is made again under the same idempotency key; after several lost answers, ask."""


_ONLY_READS = frozenset({Effect.PURE, Effect.READ, Effect.LLM})
_MAY_RERUN = _ONLY_READS | {Effect.IDEMPOTENT, Effect.KEYED}
