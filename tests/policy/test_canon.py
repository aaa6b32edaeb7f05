"""A policy read back from a journal is identical, and identified by its hash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ir.labels import Label, read_label
from callsheet.policy.canon import policy_from_json, policy_hash, policy_to_json
from callsheet.policy.model import (
    AgentRule,
    Audience,
    CallRule,
    Implicit,
    Policy,
    ReplanRule,
    SourceRule,
    ToolRule,
    When,
)

NAMES = st.text("abcXYZ_*.", min_size=1, max_size=6)
LABELS = st.builds(
    Label, st.booleans(), st.none() | st.frozensets(st.sampled_from(["user", "trusted", "hr"]))
)
SOME = st.lists(NAMES, max_size=2).map(tuple)
TOOLS = st.builds(
    ToolRule,
    egress=st.booleans(),
    control=SOME,
    audience_arg=st.none() | NAMES,
    trusted_audience=SOME,
    destructive=st.booleans(),
    idempotent=st.booleans(),
    key_arg=NAMES,
    approval=st.sampled_from(When),
    returns=LABELS,
    pin=st.none() | NAMES,
)
POLICIES = st.builds(
    Policy,
    name=NAMES,
    audiences=st.lists(st.builds(Audience, name=NAMES, hosts=SOME, mail=SOME), max_size=2).map(tuple),
    sources=st.lists(st.builds(SourceRule, kind=NAMES, pattern=NAMES, label=LABELS), max_size=2).map(tuple),
    tools=st.dictionaries(NAMES, TOOLS, max_size=2),
    allowed_tools=st.none() | st.frozensets(NAMES, max_size=2),
    denied_tools=st.frozensets(NAMES, max_size=2),
    refuse_unknown_tools=st.booleans(),
    egress_hosts=st.none() | SOME,
    host_read=SOME,
    exec_network=st.booleans(),
    implicit=st.sampled_from(Implicit),
    memory=LABELS,
    planner=LABELS,
    inputs=LABELS,
    agent=st.none() | st.builds(AgentRule, tools=SOME, max_turns=st.integers(0, 9)),
    replan=st.none()
    | st.builds(ReplanRule, max=st.integers(0, 9), context=st.sampled_from(["trusted", "any"])),
    approved=st.frozensets(NAMES, max_size=2),
    declassify=st.frozensets(NAMES, max_size=2),
    forbidden=SOME,
    rules=st.lists(st.builds(CallRule, tool=NAMES, when=NAMES, then=NAMES), max_size=1).map(tuple),
    max_steps=st.none() | st.integers(0, 9),
    max_calls=st.none() | st.integers(0, 9),
    max_retries=st.none() | st.integers(0, 9),
)


@given(POLICIES)
def test_policies_round_trip(policy: Policy) -> None:
    read = policy_from_json(json.loads(json.dumps(policy_to_json(policy))))
    assert read == policy
    assert policy_hash(read) == policy_hash(policy)


@given(POLICIES, POLICIES)
def test_policies_have_equal_hashes_only_if_they_are_equal(one: Policy, other: Policy) -> None:
    assert (policy_hash(one) == policy_hash(other)) == (one == other)


def test_every_field_affects_hash() -> None:
    changed: list[Policy] = [
        replace(Policy(), denied_tools=frozenset({"X"})),
        replace(Policy(), planner=read_label("U/pub")),
        replace(Policy(), tools={"X": ToolRule()}),
        replace(Policy(), tools={"X": ToolRule(egress=False)}),
    ]
    assert len({policy_hash(policy) for policy in changed}) == len(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"policy": 2},
        {"unknown": 1},
        {"planner": "secret"},
        {"implicit": "sometimes"},
        {"tools": {"X": {"unknown": 1}}},
        {"tools": ["X"]},
        {"sources": [1]},
        {"agent": {"max": 1}},
    ],
)
def test_unknown_fields_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        policy_from_json(policy_to_json(Policy()) | change)
