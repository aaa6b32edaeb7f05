"""Binding a policy to tools: by server, name and pin, under every name that a plan may use for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callsheet.api.policies import load_policy
from callsheet.api.policy_entries import bind_policy
from callsheet.api.proving import prove
from callsheet.frontends.ltp import parse
from callsheet.ir.labels import read_label
from callsheet.policy.canon import is_of, policy_from_json, policy_to_json
from callsheet.policy.model import CallRule, Policy, SourceRule, ToolRule
from callsheet.policy.sources import Sources
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Registry, Tool, ToolSpec

RULE = ToolRule(destructive=False, pin="sha256:1")


async def _nothing(args: dict[str, Any], context: CallContext) -> None:
    return None


def registry(*servers: str, pin: str = "sha256:1") -> Registry:
    made = Registry()
    for server in servers:
        spec = ToolSpec("DELETE", "delete", origin=f"mcp:{server}", pin=pin)
        made.add(Tool(spec, _nothing), alias=f"{server.upper()}__DELETE")
    return made


def test_server_tool_entry_applies_under_all_its_names() -> None:
    policy, found = bind_policy(Policy(tools={"mcp:fs/delete": RULE}), registry("fs"))
    assert not found
    assert policy.tools == {"DELETE": RULE, "FS__DELETE": RULE}


def test_two_servers_with_same_tool_name_have_separate_entries() -> None:
    policy, _ = bind_policy(Policy(tools={"mcp:fs/delete": RULE}), registry("fs", "db"))
    assert policy.tools == {"FS__DELETE": RULE}


@pytest.mark.parametrize("plan", ["S1: @DELETE", "S1: @FS__DELETE"])
def test_pinned_entry_counts_before_its_server_is_asked(plan: str) -> None:
    read = parse(f"PLAN_START\n{plan}\nPLAN_END").require()
    pinned, free = (
        Policy(tools={"mcp:fs/delete": RULE}),
        Policy(tools={"mcp:fs/delete": replace(RULE, pin=None)}),
    )
    assert prove(read, pinned, Registry()).ok
    assert not prove(read, free, Registry()).ok, "whether the entry is still right, nobody knows"
    assert not prove(read, pinned, registry("fs", pin="sha256:2")).ok


def test_pinned_entry_takes_no_name_of_another_tool() -> None:
    two = Policy(tools={"mcp:fs/delete": RULE, "mcp:db/delete": RULE, "mcp:fs/read_file": RULE})
    names = frozenset({"DELETE", "READ_FILE", "FS__DELETE", "DB__DELETE", "FS__READ_FILE"})
    bound, _ = bind_policy(two, Registry(), names)
    assert bound.tools.keys() - two.tools.keys() == names - {"DELETE", "READ_FILE"}
    fs = Policy(tools={"mcp:fs/delete": RULE})
    assert "DELETE" not in bind_policy(fs, registry("db"), names)[0].tools


def test_denied_tool_is_denied_under_all_its_names() -> None:
    for key in ("mcp:fs/delete", "DELETE", "FS__DELETE"):
        policy, _ = bind_policy(Policy(denied_tools=frozenset({key})), registry("fs"))
        assert policy.denied_tools == {"DELETE", "FS__DELETE"}, key


def test_rules_apply_to_their_tool_under_all_names() -> None:
    rule = CallRule(tool="mcp:fs/delete", when="true", then="approve")
    policy, _ = bind_policy(Policy(rules=(rule,)), registry("fs"))
    assert {each.tool for each in policy.rules} == {"DELETE", "FS__DELETE"}


@pytest.mark.parametrize("key", ["DELETE", "FS__DELETE", "mcp:fs/delete"])
def test_result_of_a_tool_has_its_source_label_under_all_names(key: str) -> None:
    rule = SourceRule(kind="tool", pattern=key, label=read_label("U/secret"))
    policy, _ = bind_policy(Policy(sources=(rule,)), registry("fs"))
    assert {Sources(policy).tool(name) for name in ("DELETE", "FS__DELETE")} == {rule.label}


def test_entry_with_different_pin_is_ignored() -> None:
    policy, found = bind_policy(Policy(tools={"mcp:fs/delete": RULE}), registry("fs", pin="sha256:2"))
    assert [d.code for d in found] == ["POL007"]
    assert not policy.tools
    assert "sha256:2" in (found[0].help or "")


@pytest.mark.parametrize(
    ("plan", "may_run"),
    [
        ("S1: @DELETE", False),
        ("S1: @FS__DELETE", False),
        ('S1: @RESPOND ("ok")', True),
        ('S1: RE-PLAN (goal="delete it")', False),
        ('S1: @AGENT_SOLVE (goal="delete it", tools=["@DELETE"])', False),
    ],
)
def test_changed_tool_stops_plans_that_may_call_it(plan: str, may_run: bool) -> None:
    there = registry("fs", pin="sha256:2")
    proof = prove(
        parse(f"PLAN_START\n{plan}\nPLAN_END").require(), Policy(tools={"mcp:fs/delete": RULE}), there
    )
    assert [(d.code, d.is_error) for d in proof.doubts] == [("POL007", not may_run)]
    assert proof.ok is may_run


def test_entry_for_unknown_tool_is_warning_with_nearest_names() -> None:
    policy, found = bind_policy(Policy(tools={"DELTE": RULE}), registry("fs"))
    assert [(d.code, d.is_error) for d in found] == [("POL008", False)]
    assert "@DELETE" in (found[0].help or "")
    assert "DELTE" in policy.tools


def test_missing_tools_are_reported_only_for_open_servers() -> None:
    policy, found = bind_policy(Policy(tools={"mcp:db/drop": RULE, "mcp:fs/drop": RULE}), registry("fs"))
    assert [d.message for d in found] == [
        "the policy has an entry for mcp:fs/drop, which does not exist here"
    ]
    assert policy.tools.keys() == {"mcp:db/drop", "mcp:fs/drop"}


FULL = """
schema = 1
name = "ours"
extends = "workspace"
[defaults]
deny = ["@PAY", "mcp:fs/wipe"]
[audience.finance]
mail = ["books@corp.example"]
[tools."mcp:fs/delete"]
control = ["path"]
returns = "T/pub"
no_echo = true
[tools."@NOTE"]
egress = false
[dynamic]
agent = { tools = ["mcp:fs/delete"], arguments = { "mcp:fs/delete" = { path = ["docs/**"] } } }
replan = { max = 2 }
[[rule]]
tool = "mcp:fs/delete"
when = "true"
then = "approve"
"""


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        ("", "", True),
        ("max = 2", "max = 3", False),
        ('returns = "T/pub"', 'returns = "U/pub"', False),
        ('deny = ["@PAY", "mcp:fs/wipe"]', 'deny = ["@PAY", "@NOTE"]', False),
        ('when = "true"', 'when = "false"', False),
        ("books@", "*@", False),
    ],
)
def test_bound_policy_in_journal_is_recognized(tmp_path: Path, before: str, now: str, is_same: bool) -> None:
    """Only the names of tools and the entries that a start adds differ from the policy as written."""
    (tmp_path / "ours.toml").write_text(FULL)
    bound, _ = bind_policy(load_policy(tmp_path / "ours.toml"), registry("fs"))
    bound = replace(bound, approved=frozenset({"S1"})).with_files(["/etc/other"])
    kept = policy_from_json(policy_to_json(bound))
    (tmp_path / "now.toml").write_text(FULL.replace(before, now))
    assert is_of(kept, load_policy(tmp_path / "now.toml")) is is_same
