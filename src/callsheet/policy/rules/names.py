"""UNKNOWN_TOOL and DENIED_TOOL: only known tools that are allowed and not denied may be called."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from callsheet.ir.linear_patterns import Patterns, patterns_of
from callsheet.policy.builtins import CONTROL_WORDS, Traits, fold, is_shell
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.rules.base import (
    BETWEEN,
    Check,
    Notes,
    OfLabels,
    OfTexts,
    Setting,
    all_text,
    is_nameless,
    of_name,
)

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | OfLabels | None:
    """UNKNOWN_TOOL and DENIED_TOOL; code that may be a shell script is also judged as SHELL_EXEC."""
    if tool in CONTROL_WORDS and tool not in setting.denied:
        return None
    fixed = _denied(tool) if tool in CONTROL_WORDS else _refusal(setting, tool, traits)
    if tool == "EXEC_CODE":
        return _code_check(fixed, _refusal(setting, "SHELL_EXEC", setting.traits("SHELL_EXEC")))
    if fixed is None:
        return _agent_check(setting, tool)

    def refuse(_call: CallView, notes: Notes) -> None:
        notes.object(fixed.rule, fixed.message, help=fixed.help)

    return refuse


def _code_check(as_code: _Refusal | None, as_shell: _Refusal | None) -> Check | None:
    """The check for EXEC_CODE: shell scripts are judged as SHELL_EXEC, programs that may be one as both."""
    if as_code is None and as_shell is None:
        return None

    def check(call: CallView, notes: Notes) -> None:
        if as_shell is not None and may_be_shell(call):
            notes.object(
                as_shell.rule,
                f"the program may be a shell's: {as_shell.message}",
                "language",
                help=as_shell.help,
            )
        elif as_code is not None and not is_surely_shell(call):
            notes.object(as_code.rule, as_code.message, help=as_code.help)

    return check


def is_surely_shell(call: CallView) -> bool:
    """Whether the program of an EXEC_CODE call is certainly a shell script."""
    language = of_name(call, "language")
    return language is not None and language.text is not None and is_shell(language.text)


def may_be_shell(call: CallView) -> bool:
    """Whether the program of an EXEC_CODE call may be a shell script."""
    language = of_name(call, "language")
    if language is not None:
        return is_shell(language.text)
    return any(is_nameless(argument) for argument in call.arguments)


def _agent_check(setting: Setting, tool: str) -> OfLabels | None:
    if tool in setting.agent_tools:
        return None

    def only_for_plans(call: CallView, notes: Notes) -> None:
        if call.in_agent:
            notes.object(
                Rule.AGENT,
                f"no agent may call @{tool} under this policy",
                help="call it in a step of the plan",
            )

    return OfLabels(only_for_plans)


class _Refusal(NamedTuple):
    """The reason why a tool may not be called."""

    rule: Rule
    message: str
    help: str


def _denied(tool: str) -> _Refusal:
    word = tool if tool in CONTROL_WORDS else f"@{tool}"
    return _Refusal(
        Rule.DENIED_TOOL,
        f"the policy denies {word}",
        "use another tool, or remove it from the policy's deny list",
    )


def _refusal(setting: Setting, tool: str, traits: Traits | None) -> _Refusal | None:
    policy = setting.policy
    if _NAME.fullmatch(tool) is None:
        return _Refusal(Rule.UNKNOWN_TOOL, f"{tool!r} is not a valid tool name", "name an existing tool")
    if tool in setting.denied or (tool == "SHELL_EXEC" and "EXEC_CODE" in setting.denied):
        return _denied(tool)
    if setting.allowed is not None and tool not in setting.allowed:
        named = ", ".join(f"@{name}" for name in sorted(setting.allowed)) or "none"
        return _Refusal(
            Rule.DENIED_TOOL, f"@{tool} is not among the tools that the policy allows", f"allowed: {named}"
        )
    if traits is None and policy.refuse_unknown_tools:
        return _Refusal(
            Rule.UNKNOWN_TOOL,
            f"the policy has no entry for @{tool}, so it may send, change or destroy anything",
            _describe(setting, tool),
        )
    return None


def _describe(setting: Setting, tool: str) -> str:
    """The suggested fix for a tool without an entry; an `mcp:` entry applies once the server's tools are
    known.
    """
    for key in setting.policy.tools:
        server, _, own = key.removeprefix("mcp:").partition("/")
        if key.startswith("mcp:") and tool in (fold(own), f"{fold(server)}__{fold(own)}"):
            return f"the entry {key} applies once its server has been asked for its tools: use --mcp-config"
    return f"describe it in the policy, under tools: @{tool} (`callsheet policy init` writes entries)"


def prepare_forbidden(setting: Setting, tool: str, traits: Traits | None) -> OfTexts | None:
    """FORBIDDEN for each pattern that matches an argument, with unknown holes taken as empty."""
    if not setting.policy.forbidden:
        return None
    patterns = patterns_of(setting.policy.forbidden)

    def check(call: CallView, notes: Notes) -> None:
        arguments = call.arguments
        if not arguments:
            return
        matching = _found(patterns, all_text(arguments))
        if not matching:
            return
        for pattern in dict.fromkeys(matching):
            guilty = next((a.name for a in arguments if pattern in _found(patterns, all_text((a,)))), None)
            notes.object(
                Rule.FORBIDDEN,
                f"an argument of @{tool} matches {pattern}, which the policy forbids",
                guilty,
                help="use a tool that has the secret itself, and keep it out of the plan",
            )

    def clears(text: str) -> bool:
        if text.isascii() and not patterns.are_anchored:
            return not patterns.any_in(text)
        return not _found(patterns, text)

    return OfTexts(check, clears)


def _found(patterns: Patterns, text: str) -> list[str]:
    """The patterns that match one of the joined texts, as written or normalised."""
    matching: list[str] = []
    for form in (text,) if text.isascii() else (text, _plain(text)):
        matching += patterns.found_in(form)
        if patterns.are_anchored and BETWEEN in form:  # anchors apply to each text
            for one in form.split(BETWEEN):
                matching += patterns.found_in(one)
    return matching


def _plain(text: str) -> str:
    """The text in NFKC form, without invisible characters."""
    folded = unicodedata.normalize("NFKC", text)
    unseen = {ord(c): None for c in set(folded) if unicodedata.category(c) == "Cf"}
    return folded.translate(unseen) if unseen else folded
