"""Effects of tools: what a call may change, which determines ordering, retries and recovery after a crash."""

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
