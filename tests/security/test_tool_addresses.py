"""Addresses that operators' tools are given: none of a cloud's metadata, and data leads to none inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.security.world import POLICY, World, refusal

from callsheet.ir import JSON, Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.machine.program import Loop
from callsheet.policy.model import AgentRule, Audience, SourceRule, ToolRule
from callsheet.policy.urls import is_metadata, loose_host

BROWSER = ToolRule(destructive=False, returns=read_label("U/pub"))
FACTS = {"NAVIGATE": ToolFacts(Effect.READ, ("url",))}
VISIT = 'S1: @READ_FILE (path="web/a.md") > $a\nS2: @NAVIGATE (url=$a) > $p\nS3: @RESPOND ($p)'


@pytest.fixture
def visited(world: World) -> list[Any]:
    """The addresses that the browser of the world visited."""
    came: list[Any] = []

    def navigate(args: dict[str, Any]) -> JSON:
        came.append(args["url"])
        return "a page"

    async def call(args: dict[str, Any], context: Any) -> JSON:
        return navigate(args)

    world.tools["NAVIGATE"] = call
    web = SourceRule(kind="file", pattern="web/**", label=read_label("U/pub"))
    tools = {**POLICY.tools, "NAVIGATE": BROWSER}
    world.policy = replace(POLICY, sources=(web, *POLICY.sources), tools=tools)
    return came


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data/", "http://2852039166/", "http://0251.0376.0251.0376/",
        "http://0xA9.0xFE.0xA9.0xFE/", "http://169.254.43518/", "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]:80/", "http://[64:ff9b::a9fe:a9fe]/", "http://[fd00:ec2::254]/",
        "http://[fe80::a9fe:a9fe%25eth0]/", "http://metadata.google.internal./x",
        "http:\\\\169.254.169.254\\x",
        "http:169.254.169.254", "//169.254.169.254/", "169.254.169.254/latest", "http://a@169.254.169.254/",
        "http://%31%36%39.254.169.254/", "http://169\u3002254\u3002169\u3002254/", "http://16\t9.254.169.254/",
        "http://\uff11\uff16\uff19.254.169.254/", "http://169-254-169-254.nip.io/", "http://x.a9fea9fe.sslip.io/",
        "HTTP://METADATA.GOOGLE.INTERNAL/", " http://169.254.169.254/",
    ],
)  # fmt: skip
async def test_data_leads_no_tool_to_cloud_metadata(world, visited, address):
    world.write("web/a.md", address)
    found = refusal(await world.run(VISIT, facts=FACTS))
    assert (found.step, found.rule, visited) == ("S2", "address", [])
    assert "metadata service" in found.message


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:8080/",
        "http://10.0.0.7/",
        "https://intranet/",
        "http://2130706433/",
        "http://[::1]/",
    ],
)
async def test_data_leads_no_tool_into_private_network_but_plan_may(world, visited, address):
    world.write("web/a.md", address)
    found = refusal(await world.run(VISIT, "by-data", facts=FACTS))
    assert (found.rule, visited) == ("address", [])
    outcome = await world.run(f'S1: @NAVIGATE (url="{address}") > $p', "by-plan", facts=FACTS)
    assert outcome.result is not None
    assert (outcome.result.status, visited) == (Status.DONE, [address])


@pytest.mark.parametrize(
    "address",
    [
        "https://docs.example/a",
        "https://1.1.1.1/",
        "s3://bucket/key",
        "docs.example",
        "reading-list",
        "7",
        "",
    ],
)
async def test_addresses_outside_blocked_ranges_are_allowed(world, visited, address):
    world.write("web/a.md", address)
    outcome = await world.run(VISIT, facts=FACTS)
    assert outcome.result is not None
    assert (outcome.result.status, visited) == (Status.DONE, [address])


async def test_judgement_of_one_address_is_not_reused_for_next(world, visited):
    world.write("web/a.md", '["https://a.example/", "https://b.example/", "http://169.254.169.254/"]')
    plan = """S1: @READ_FILE (path="web/a.md") > $all:json
    S2: ?FOREACH ($a IN $all) THEN @NAVIGATE (url=$a) > $p"""
    assert refusal(await world.run(plan, facts=FACTS)).rule == "address"
    assert "http://169.254.169.254/" not in visited


async def test_audience_host_is_allowed(world, visited):
    world.policy = replace(
        world.policy, audiences=(Audience(name="trusted", hosts=("localhost", "169.254.170.2")),)
    )
    for number, address in enumerate(("http://localhost:8080/", "http://169.254.170.2/v2")):
        world.write("web/a.md", address)
        outcome = await world.run(VISIT, f"run{number}", facts=FACTS)
        assert outcome.result is not None
        assert outcome.result.status is Status.DONE
    assert len(visited) == 2


async def test_agent_is_subject_to_same_address_rules(world, visited):
    world.policy = replace(world.policy, agent=AgentRule(tools=("NAVIGATE",)))

    async def turn(command: Any, context: Any) -> JSON:
        return {"tool": "navigate", "args": {"url": "http://169.254.169.254/"}}

    world.more["turn"] = turn
    facts = {**FACTS, "AGENT_SOLVE": ToolFacts(loop=Loop(("NAVIGATE",)))}
    found = refusal(await world.run('S1: @AGENT_SOLVE ("go") > $a\nS2: @RESPOND ($a)', facts=facts))
    assert (found.tool, found.rule, visited) == ("NAVIGATE", "address", [])


@pytest.mark.parametrize(
    "text", ["", "x" * 100_000, "http://" + "1." * 50_000, "http://[" + ":" * 50_000, "@" * 9_999]
)
def test_host_is_extracted_from_any_text(text):
    assert is_metadata(loose_host(text)) is False
