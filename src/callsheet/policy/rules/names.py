"""Which tools may be called: known, on the list of what is allowed, on no list of what is denied."""

from __future__ import annotations

import re

from callsheet.policy.builtins import CONTROL_WORDS, Traits, is_shell
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.rules.base import Check, Notes, Setting, is_nameless, of_name

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """UNKNOWN_TOOL and DENIED_TOOL; code whose language may be a shell's is also judged as a shell's."""
    if tool in CONTROL_WORDS:
        return None
    fixed = _refusal(setting, tool, traits)
    if fixed is not None:
        rule, message, way_out = fixed

        def refuse(_call: CallView, notes: Notes) -> None:
            notes.object(rule, message, help=way_out)

        return refuse
    if tool != "EXEC_CODE":
        return _agent_check(setting, tool)
    as_shell = _refusal(setting, "SHELL_EXEC", setting.traits("SHELL_EXEC"))
    if as_shell is None:
        return _agent_check(setting, tool)
    shell_rule, shell_message, shell_help = as_shell

    def code(call: CallView, notes: Notes) -> None:
        if may_be_shell(call):
            notes.object(shell_rule, f"the program may be a shell's: {shell_message}", "language", shell_help)

    return code


def may_be_shell(call: CallView) -> bool:
    """Whether the program of an EXEC_CODE may be a shell script."""
    language = of_name(call, "language")
    if language is not None:
        return is_shell(language.text)
    return any(is_nameless(argument) for argument in call.arguments)


def _agent_check(setting: Setting, tool: str) -> Check | None:
    if tool in setting.agent_tools:
        return None

    def only_for_plans(call: CallView, notes: Notes) -> None:
        if call.in_agent:
            notes.object(Rule.AGENT, f"no agent may call @{tool} under this policy")

    return only_for_plans


def _refusal(setting: Setting, tool: str, traits: Traits | None) -> tuple[Rule, str, str | None] | None:
    policy = setting.policy
    if _NAME.fullmatch(tool) is None:
        return Rule.UNKNOWN_TOOL, f"{tool!r} is no name of a tool", None
    if tool in setting.denied or (tool == "SHELL_EXEC" and "EXEC_CODE" in setting.denied):
        return Rule.DENIED_TOOL, f"the policy denies @{tool}", None
    if setting.allowed is not None and tool not in setting.allowed:
        named = ", ".join(f"@{name}" for name in sorted(setting.allowed)) or "none"
        return Rule.DENIED_TOOL, f"@{tool} is not among the tools that the policy allows", f"allowed: {named}"
    if traits is None and policy.refuse_unknown_tools:
        return (
            Rule.UNKNOWN_TOOL,
            f"the policy says nothing of @{tool}, so it may send, change and destroy anything",
            f"describe it in the policy, under tools: @{tool}",
        )
    return None
