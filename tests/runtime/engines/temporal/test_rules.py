"""Runs with a policy or with secrets on a real server: same rules, and no secret disclosed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.engines.temporal.conftest import World
from tests.security.test_agents import AGENT, SOLVES, Model
from tests.security.world import FACTS, POLICY
from tests.security.world import World as Office

from callsheet.ir import Effect
from callsheet.machine import Limits, Status, ToolFacts
from callsheet.policy.model import AgentRule, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.runtime.answers import Answer
from callsheet.runtime.asking import Respondents
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.engines.temporal.call_rules import NamedSecrets, NotGiven
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Offer
from callsheet.sealing.credentials import configured
from callsheet.store.labels import LabelStore
from callsheet.store.start import SECRETS

LIMITS = Limits(retry_delay=0.0)
KEY = "c0nfigured-key-77"
HIDDEN = "the number of the box is 4711-0815"


@pytest.fixture
def office(tmp_path: Path, world: World) -> Office:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Office(folder, world.journal)


async def test_secret_file_keeps_label_in_copy_and_leaves_by_no_call(world: World, office: Office) -> None:
    office.write("box/numbers.txt", HIDDEN)
    text = (
        'S1: @READ_FILE ("box/numbers.txt") > $x\nS2: @WRITE_FILE ("out.txt", $x) > $w\n'
        'S3: @READ_FILE ("out.txt") > $y\nS4: @WEB_SEARCH ($y) > $z\nS5: @RESPOND ("$z")'
    )
    here = (await office.run(text, "here", present=Respondents(lambda ask: True))).result
    async with world.worker(office.ports(), labels=lambda: LabelStore.beside(world.journal.path)):
        asked = await world.run(text, {}, FACTS, LIMITS, policy=office.policy)
        await client.answer(world.temporal_run(asked.run_id), Answer.approve(), None)
        there = (await world.wait(asked.run_id)).result
    assert there is not None
    assert here is not None
    assert (there.status, there.error, there.objection) == (Status.REFUSED, here.error, here.objection)
    assert office.sent == []
    files = [path for path in world.journal.path.parent.glob("journal.db*") if path.is_file()]
    assert HIDDEN.encode() not in b"".join(path.read_bytes() for path in files)


async def test_approval_required_by_policy_is_given_by_signal(world: World, office: Office) -> None:
    office.policy = replace(POLICY, tools={"PAY": replace(POLICY.tools["PAY"], approval="always")})
    text = 'S1: @PAY ("Ada", 7) > $x\nS2: @RESPOND ("$x")'
    async with world.worker(office.ports()):
        asked = await world.run(text, {}, FACTS, LIMITS, policy=office.policy)
        (ask,) = asked.waiting
        assert (ask.tool, office.paid) == ("PAY", [])
        await client.answer(world.temporal_run(asked.run_id), Answer.approve(), "S1", ask.digest)
        ended = await world.wait(asked.run_id)
    assert ended.result is not None
    assert (ended.result.response, office.paid) == ("paid", [{"to": "Ada", "amount": 7}])


async def test_agent_token_applies_on_every_worker(world: World, office: Office) -> None:
    office.policy = replace(
        POLICY, agent=AgentRule(tools=("WEB_SEARCH",), arguments={"WEB_SEARCH": {"query": ("weather *",)}})
    )
    model = office.more["turn"] = Model(
        {"tool": "web_search", "args": {"query": "secrets"}},
        {"tool": "web_search", "args": {"query": "weather Oslo"}},
        {"finish": "sunny"},
    )
    async with world.worker(office.ports()):
        ended = await world.run(SOLVES, {}, {**FACTS, **AGENT}, LIMITS, policy=office.policy)
    assert ended.result is not None
    assert (ended.result.response, office.sent) == ("sunny", [{"query": "weather Oslo"}])
    assert len(model.heard) == 3


async def test_secret_is_inserted_by_worker_and_absent_from_history(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_TOKEN", "s3cr3t-99-tok")
    heard: list[str] = []

    async def login(args: dict[str, Any], context: CallContext) -> Any:
        heard.append(args["token"])
        return {"session": 7, "echo": [f"you said {args['token']}, I have {KEY}"]}

    text = 'S1: @LOGIN ($token) > $s\nS2: @LOGIN ("again ${s.echo.0}") > $t\nS3: @RESPOND ("$t")'
    order = {"note": {SECRETS: {"[secret token 1f]": "PORTAL_TOKEN"}}}
    facts = {"LOGIN": ToolFacts(Effect.READ, ("token",))}
    ports = Ports({"LOGIN": Route(login)}.get, known=configured([KEY]))
    async with world.worker(ports, secrets=("PORTAL_TOKEN",)):
        run = await world.run(text, {"token": "[secret token 1f]"}, facts, **order)
    assert heard == ["s3cr3t-99-tok", "again you said s3cr3t-99-tok, I have [secret]"]
    history = await world.temporal_run(run.run_id).handle.fetch_history()
    told = b"".join(event.SerializeToString() for event in history.events)
    assert (b"s3cr3t" in told, KEY.encode() in told) == (False, False)


async def test_tool_changed_since_start_is_not_called(world: World) -> None:
    heard: list[str] = []

    async def note(args: dict[str, Any], context: CallContext) -> Any:
        heard.append(context.key)

    route, pins = Route(note), {"SAME": "sha256:1", "OTHER": "sha256:1"}
    offered = {"SAME": "sha256:1", "UNPINNED": "", "OTHER": "sha256:2"}
    text = "S1: @SAME ()\nS2: @UNPINNED ()\nS3: @OTHER () > $x"
    async with world.worker(
        Ports(lambda tool: route),
        offer_of={tool: Offer(pin, "mcp:notes") for tool, pin in offered.items()}.get,
    ):
        run = await world.run(text, pins=pins)
    assert heard == ["S1.0.1", "S2.0.1"]
    assert run.result is not None
    assert "@OTHER is not declared as it was when the run began" in str(run.result.variables["x"])


MOVES = "S1: @LOOK () > $x\nS2: @RESPOND ($x)"
OF_FS = {"facts": {"LOOK": ToolFacts(Effect.READ)}, "note": {"servers": {"LOOK": ["fs", "pipe", ""]}}}


class Looks:
    """The tool LOOK as a worker offers it."""

    def __init__(self, pin: str, origin: str) -> None:
        self.calls: list[str] = []
        self.duties: dict[str, Any] = {"offer_of": {"LOOK": Offer(pin, origin)}.get}

    async def look(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(context.key)
        return "seen"

    @property
    def ports(self) -> Ports:
        return Ports({"LOOK": Route(self.look)}.get)


@pytest.mark.parametrize(
    ("of_start", "origin", "why"),
    [
        (OF_FS, "mcp:other", "@LOOK was a tool of the MCP server 'fs' at the start, and now comes from"),
        (OF_FS, "python:tools.py", "and now comes from no MCP server"),
        ({"facts": OF_FS["facts"]}, "mcp:other", "@LOOK came from no MCP server at the start"),
        (OF_FS, "mcp:fs", ""),
        ({"facts": OF_FS["facts"]}, "python:tools.py", ""),
        ({}, "mcp:other", ""),
    ],
)
async def test_tool_moved_to_another_server_is_not_called(
    world: World, of_start: dict[str, Any], origin: str, why: str
) -> None:
    here = Looks("", origin)
    async with world.worker(here.ports, **here.duties):
        run = await world.run(MOVES, **of_start)
    assert run.result is not None
    assert (why in str(run.result.variables["x"]), len(here.calls)) == (True, 0 if why else 1)
    accepting = Looks("", origin)
    async with world.worker(accepting.ports, accepts_changed=True, **accepting.duties):
        await world.run(MOVES, **of_start)
    assert accepting.calls == ["S1.0.1"]


async def test_policy_pins_bind_workers_that_accept_changed_tools(world: World, office: Office) -> None:
    policy = replace(
        POLICY, tools={**POLICY.tools, "LOOK": ToolRule(pin="sha256:1", egress=False, destructive=False)}
    )
    for pin, made in (("sha256:2", []), ("sha256:1", ["S1.0.1"])):
        here = Looks(pin, "mcp:fs")
        async with world.worker(here.ports, accepts_changed=True, **here.duties):
            run = await world.run(MOVES, policy=policy, **OF_FS)
        assert run.result is not None
        assert here.calls == made
        assert ("has changed since the policy was written" in str(run.result.variables["x"])) == (not made)


def test_worker_provides_only_configured_secrets() -> None:
    environ = {"A": "value of a", "B": "value of b"}
    named = NamedSecrets({"[a]": "A", "[b]": "B", "[c]": "C"}, ("A", "C"), environ)
    assert named.put_in({"args": {"x": ["<[a]>"]}}) == {"args": {"x": ["<value of a>"]}}
    with pytest.raises(NotGiven, match="--secret B"):
        named.put_in({"args": "[b]"})
    with pytest.raises(NotGiven, match="no variable C"):
        named.put_in({"args": "[c]"})
    assert named.take_out({"value of a": "dmFsdWUgb2YgYQ== value of b"}) == {"[a]": "[secret]Q== value of b"}
