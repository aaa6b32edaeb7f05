"""The names that plans call: which are callsheet's own operations, and which are tools.

A name is ASCII, folded to one upper-case form, so that analysis, policy and execution see the same name.
"""

from __future__ import annotations

from enum import StrEnum


class CallKind(StrEnum):
    """Who carries out a call."""

    TOOL = "tool"
    """A tool of the registry: built in, a Python function or on an MCP server."""
    MODEL = "model"
    """One focused prompt to a language model."""
    AGENT = "agent"
    """A sub-agent with a limited number of turns."""
    TRANSFORM = "transform"
    """A pure function of its arguments, carried out by callsheet."""
    HUMAN = "human"
    """A question to a person, for whose answer the run waits."""


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
"""Words of the language that look like calls; the plan has actions of their own for them."""

EXECUTOR_NAMES = {
    "EXEC_CODE": "execute_code",
    "SHELL_EXEC": "execute_code",
    "INSTALL_PKG": "install_package",
}
"""Where the document's tool name and the executor's differ; every other name is its lower case."""


def canonical_tool_name(name: str) -> str:
    """The one upper-case name of a tool, without `@`.

    Characters of a server's own tool names that a plan cannot write become `_`.

    >>> canonical_tool_name("@fetch_page"), canonical_tool_name("git-log")
    ('FETCH_PAGE', 'GIT_LOG')
    """
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name.removeprefix("@")).upper()


def executor_name(tool: str) -> str:
    """The name under which an executor knows a canonical tool.

    >>> executor_name("EXEC_CODE"), executor_name("MEMORY_STATS")
    ('execute_code', 'memory_stats')
    """
    return EXECUTOR_NAMES.get(tool) or tool.lower()


def call_kind(tool: str) -> CallKind:
    """Who carries out a call of this canonical name."""
    if tool in MODEL_OPERATIONS:
        return CallKind.MODEL
    if tool in AGENT_OPERATIONS:
        return CallKind.AGENT
    if tool in TRANSFORMS:
        return CallKind.TRANSFORM
    if tool in HUMAN_OPERATIONS:
        return CallKind.HUMAN
    return CallKind.TOOL
