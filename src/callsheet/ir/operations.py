"""Classifies the names that plans call: callsheet's own operations, and tools.

Names are normalized to upper-case ASCII, so that analysis, policy and execution use the same one.
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
