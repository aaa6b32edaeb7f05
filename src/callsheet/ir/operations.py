"""What plans call, callsheet's own operations and tools, and the effects that a call may have.

Names are normalized to upper-case ASCII, so that analysis, policy and execution use the same one.

The class of a tool says what kind of thing a call does, which determines what a policy assumes of it.
"""

from __future__ import annotations

from enum import StrEnum

from callsheet import lazy


class CallKind(StrEnum):
    """What executes a call."""

    TOOL = "tool"
    """A tool of the registry: built in, a Python function, or on an MCP server."""
    MODEL = "model"
    """One focused prompt to a language model."""
    AGENT = "agent"
    """A sub-agent with a limited number of turns."""
    TRANSFORM = "transform"
    """A pure function of its arguments, executed by callsheet."""
    HUMAN = "human"
    """A question to a person; the run waits for the answer."""


MODEL_OPERATIONS = frozenset(
    {
        "LLM_EXTRACT",
        "LLM_CLASSIFY",
        "LLM_SUMMARIZE",
        "LLM_ANALYZE",
        "LLM_EVALUATE",
        "LLM_GENERATE",
        "LLM_TRANSLATE",
        "AGENT_CRITIQUE",
        "CONSENSUS",
        "SELF_REFINE",
    }
)
AGENT_OPERATIONS = frozenset({"AGENT_SOLVE"})
TRANSFORMS = frozenset({"SELECT", "CALC", "FORMAT"})
HUMAN_OPERATIONS = frozenset({"ASK_HUMAN"})
CONTROL_WORDS = frozenset({"RESPOND", "TERMINATE", "GOTO", "RE-PLAN", "REPLAN"})
"""Keywords that look like calls but are parsed to actions of their own."""

_NO_LETTER = lazy.pattern(r"[^A-Za-z0-9]")

CLOCK = "callsheet.clock"
"""What a plan with blocks asks for the time; no plan can call it by name."""
COMPUTE = "callsheet.compute"
"""What runs the pure Python of a COMPUTE; no plan can call it by name."""

EXECUTOR_NAMES = {
    "EXEC_CODE": "execute_code",
    "SHELL_EXEC": "execute_code",
    "INSTALL_PKG": "install_package",
}
"""Executor names that are not the lower-case form of the tool name in a plan."""


def canonical_tool_name(name: str) -> str:
    """The canonical upper-case name of a tool, without `@`.

    Every character but ASCII letters and digits becomes `_`.

    >>> canonical_tool_name("@fetch_page"), canonical_tool_name("git-log")
    ('FETCH_PAGE', 'GIT_LOG')
    """
    return _NO_LETTER.sub("_", name.removeprefix("@")).upper()


def pattern_fault(name: str) -> str | None:
    """Why a setting cannot name tools like this, or None: a name is one tool's, and never a pattern.

    >>> pattern_fault("MAIL__*"), pattern_fault("mail__send")
    ("'MAIL__*' is a pattern, which names no tool: name each tool", None)
    """
    if "*" in name or "?" in name:
        return f"{name!r} is a pattern, which names no tool: name each tool"
    return None


def executor_name(tool: str) -> str:
    """The executor's name of a tool, given its canonical name.

    >>> executor_name("EXEC_CODE"), executor_name("MEMORY_STATS")
    ('execute_code', 'memory_stats')
    """
    return EXECUTOR_NAMES.get(tool) or tool.lower()


def call_kind(tool: str) -> CallKind:
    """What executes a call of this canonical name."""
    if tool in MODEL_OPERATIONS:
        return CallKind.MODEL
    if tool in AGENT_OPERATIONS:
        return CallKind.AGENT
    if tool in TRANSFORMS:
        return CallKind.TRANSFORM
    if tool in HUMAN_OPERATIONS:
        return CallKind.HUMAN
    return CallKind.TOOL


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


class Independence(lazy.NamedTuple):
    """What is declared of the order of a tool's calls in different items of a loop.

    `commutes` says that it is all the same when a call is made among the declared calls of other items.
    `resource` names the arguments that say which thing a call touches: calls for different things do not
    touch each other. Of a tool that says neither, any order but that of the text may be another meaning.
    """

    commutes: bool = False
    resource: tuple[str, ...] = ()
    as_reads: bool = False
    """Of runs from before this was declared: idempotent calls counted like those that only read."""

    def __str__(self) -> str:
        """What is declared, in words; "" for nothing.

        >>> str(Independence(resource=("repo", "number"))), str(Independence(commutes=True))
        ('calls for another repo and number do not touch each other', 'calls commute')
        """
        if self.resource:
            return f"calls for another {' and '.join(self.resource)} do not touch each other"
        return "calls commute" if self.commutes else ""


ORDERED = Independence()
"""Nothing is declared: the order of the calls is the meaning."""


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
