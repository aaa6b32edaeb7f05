"""Agents under a policy: what their token covers, before and after a resume."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from tests.runtime.tools import plan_of
from tests.security.world import POLICY, World, refusal

from callsheet.ir import JSON, Effect
from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.machine import Status, ToolFacts
from callsheet.machine.agents.actions import Allowance
from callsheet.machine.program import Loop
from callsheet.passes.verify import verify
from callsheet.policy.model import AgentRule, Audience, ToolRule
from callsheet.ports.builtin.settings import FetchSettings
from callsheet.ports.builtin.web import fetch_tool
from callsheet.ports.calls import ToolFailed
from callsheet.ports.tools import CallContext
from callsheet.runtime.capabilities import Task, Tasks, TokenRefused, Tokens
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.guard import Guard
from callsheet.store.labels import LabelStore

AGENT = {"AGENT_SOLVE": ToolFacts(loop=Loop(("NOTE", "WEB_SEARCH", "READ_FILE")))}
SOLVES = 'S1: @AGENT_SOLVE ("go") > $a ON_FAIL TERMINATE ("$a")\nS2: @RESPOND ($a)'


class Model:
    """Returns the answers in order; hangs on None. `heard` are the commands of the prompts."""

    def __init__(self, *answers: JSON) -> None:
        self.left = list(answers)
        self.heard: list[Any] = []
        self.hangs = asyncio.Event()

    async def __call__(self, command: Any, context: CallContext) -> JSON:
        self.heard.append(command)
        answer = self.left.pop(0)
        if answer is None:
            self.hangs.set()
            await asyncio.sleep(60)
        return answer


def note(text: str) -> JSON:
    return {"tool": "note", "args": {"text": text}}


async def stopped(world: World, model: Model) -> None:
    """A run whose process ends while its model hangs."""
    world.more["turn"] = model
    running = asyncio.create_task(world.run(SOLVES, facts=AGENT))
    async with asyncio.timeout(50):
        await model.hangs.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def answer_of(outcome: RunOutcome) -> str:
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    return outcome.result.response


async def test_agent_call_with_other_arguments_is_refused_and_reported(world: World) -> None:
    world.policy = replace(
        POLICY, agent=AgentRule(tools=("WEB_SEARCH",), arguments={"WEB_SEARCH": {"query": ("weather *",)}})
    )
    model = world.more["turn"] = Model(
        {"tool": "web_search", "args": {"query": "secrets"}},
        {"tool": "web_search", "args": {"query": "weather Oslo"}},
        {"finish": "sunny"},
    )
    assert answer_of(await world.run(SOLVES, facts=AGENT)) == "sunny"
    assert world.sent == [{"query": "weather Oslo"}]
    (seen,) = model.heard[1].turns[0].seen
    assert (seen.key, seen.value) == ("", "query must be weather *")


@pytest.fixture
def site() -> Iterator[HTTPServer]:
    """Redirects /to/X to the address X; everything else is a page."""

    class Site(BaseHTTPRequestHandler):
        seen: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            self.seen.append(self.path)
            target = self.path.removeprefix("/to/")
            self.send_response(302 if target != self.path else 200)
            self.send_header("Location", target)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(f"page {self.path}".encode())

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name there

    server = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


FETCHES = {
    "AGENT_SOLVE": ToolFacts(loop=Loop(("FETCH_PAGE",))),
    "FETCH_PAGE": ToolFacts(Effect.READ, ("url",)),
}


NAMES = ("docs.example", "other.example")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Internet host names that resolve to this machine."""
    real = socket.getaddrinfo

    def resolve(_host: str, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def fetching(world: World, site: HTTPServer) -> list[str]:
    """Let a world fetch pages of a site under two names; returns its addresses."""
    page = fetch_tool(FetchSettings(allow_private_hosts=NAMES))

    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        return await page.handler(args, context)

    world.tools["FETCH_PAGE"] = call
    return [f"http://{name}:{site.server_port}" for name in NAMES]


@pytest.mark.usefixtures("names")
async def test_redirects_of_agent_call_are_checked_against_token(world: World, site: HTTPServer) -> None:
    docs, other = fetching(world, site)
    bound = {"FETCH_PAGE": {"url": (f"{docs}/docs/*", f"{docs}/to/*")}}
    world.policy = replace(POLICY, agent=AgentRule(tools=("FETCH_PAGE",), max_turns=9, arguments=bound))
    ways = (
        "/docs/a",
        "/private/1",
        "/to//docs/b",
        f"{other}/docs/2",
        "/to//private/3",
        "//docs.example/docs/4",
    )
    turns: list[JSON] = [{"tool": "fetch_page", "args": {"url": f"{docs}/to/{way}"}} for way in ways]
    model = world.more["turn"] = Model(*turns, {"finish": "done"})
    solves = SOLVES.replace('("go")', '("go", max_turns=9)')
    assert answer_of(await world.run(solves, facts=FETCHES)) == "done"
    seen: list[Any] = [turn.seen[0].value for turn in model.heard[-1].turns]
    assert (seen[0], seen[2]) == ("page /docs/a", "page /docs/b")
    assert all("is not allowed: url must be" in seen[number] for number in (1, 3, 4, 5))
    asked = [path for path in site.RequestHandlerClass.seen if not path.startswith("/to/")]  # type: ignore[attr-defined]
    assert asked == ["/docs/a", "/docs/b"]


@pytest.mark.usefixtures("names")
async def test_redirects_of_step_are_checked_against_policy(world: World, site: HTTPServer) -> None:
    docs, other = fetching(world, site)
    plan = 'S1: @FETCH_PAGE (url="{}") > $a ON_FAIL TERMINATE ("no: $a")\nS2: @RESPOND ($a)'
    for number, (trusted, hosts, way, ends) in enumerate(
        (
            ((), None, f"{other}/a", "page /a"),
            ((), ("docs.example",), "/a", "page /a"),
            ((), ("docs.example",), f"{other}/a", "not among the hosts"),
            (("other.example",), None, f"{other}/a", "trusts"),
            (NAMES, None, f"{other}/a", "page /a"),
        )
    ):
        audiences = (Audience(name="trusted", hosts=trusted),) if trusted else ()
        world.policy = replace(POLICY, audiences=audiences, egress_hosts=hosts)
        outcome = await world.run(plan.format(f"{docs}/to/{way}"), f"run{number}", facts=FETCHES)
        assert outcome.result is not None
        assert ends in outcome.result.response


async def test_resumed_agent_has_remaining_allowance(world: World) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), max_calls=2))
    await stopped(world, Model(note("a"), None))
    model = world.more["turn"] = Model(note("b"), note("c"), {"finish": "done"})
    assert answer_of(await world.resume()) == "done"
    told = [seen.value for turn in model.heard[-1].turns for seen in turn.seen]
    assert told == ["a", "b", "all 2 calls are made; finish with what is known"]


async def test_call_in_flight_is_repeated_under_token_of_agent(world: World) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("READ_FILE",)))
    world.write("notes.txt", "the answer")
    reached, kept = asyncio.Event(), world.tools["READ_FILE"]

    async def hang(args: dict[str, Any], context: CallContext) -> JSON:
        reached.set()
        await asyncio.sleep(60)
        return None

    world.tools["READ_FILE"] = hang
    world.more["turn"] = Model({"tool": "read_file", "args": {"path": "notes.txt"}})
    running = asyncio.create_task(world.run(SOLVES, facts=AGENT))
    async with asyncio.timeout(50):
        await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    world.tools["READ_FILE"] = kept
    model = world.more["turn"] = Model({"finish": "done"})
    assert answer_of(await world.resume()) == "done"
    assert model.heard[0].turns[0].seen[0].value == "the answer"


async def test_agent_time_passes_while_run_is_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), seconds=600))
    await stopped(world, Model(note("a"), None))
    later = partial(Guard, clock=lambda: time.time() + 601)
    monkeypatch.setattr("callsheet.runtime.guard.Guard", later)
    world.more["turn"] = Model(note("b"))
    outcome = await world.resume()
    assert outcome.result is not None
    assert outcome.result.error == (
        "the agent's token is not valid: its time under the policy has run out ([dynamic] agent.seconds)"
    )


@pytest.mark.parametrize(
    ("tools", "label", "why"),
    [
        (("WEB_SEARCH",), "T/priv", "private data and a way out"),
        (("WEB_SEARCH",), "T/secret", "secret data and a way out"),
        (("READ_FILE", "WEB_SEARCH"), "T/pub", "read private data with @READ_FILE and send it out"),
        (("WRITE_FILE",), "U/pub", "untrusted text could make it misuse @WRITE_FILE"),
        (("WRITE_FILE", "FETCH_PAGE"), "T/pub", "untrusted text could make it misuse @WRITE_FILE"),
    ],
)
def test_private_data_untrusted_content_and_egress_never_share_token(
    tools: tuple[str, ...], label: str, why: str
) -> None:
    policy = replace(POLICY, agent=AgentRule(tools=tools))
    tokens = Tokens(policy, "run", "hash", Tasks(), lambda: 0.0)
    with pytest.raises(TokenRefused, match=why):
        tokens.token_of("S1.0.1", Task("S1", Allowance(tools), read_label(label)))


def test_token_states_purpose_and_deadline_from_its_start() -> None:
    policy = replace(POLICY, agent=AgentRule(tools=("NOTE", "READ_FILE"), seconds=60.0))
    tokens = Tokens(policy, "run", "hash", Tasks(began={"S1.0.1": 1000.0}.get), lambda: 1030.0)
    token, _ = tokens.token_of("S1.0.1", Task("S1", Allowance(("NOTE",)), read_label("U/priv")))
    given = tokens.read(token)
    assert (given.expires, given.tools, given.labels_in, given.step) == (1060.0, ("NOTE",), "U/priv", "S1")
    other, _ = tokens.token_of("S2.0.1", Task("S2", Allowance(("NOTE",)), LITERAL))
    assert tokens.read(other).expires == 1090.0
    with pytest.raises(TokenRefused, match="has none"):
        tokens.token_of("S3.0.1")


@pytest.mark.parametrize(("label", "is_told"), [("T/secret", False), ("U/priv", True), (["finance"], False)])
async def test_data_hidden_from_models_is_hidden_from_agents(world: World, label: Any, is_told: bool) -> None:
    """The persisted label of a file is known only when it is read."""
    held = read_label(label) if isinstance(label, str) else Label(True, frozenset(label))
    world.write("docs/a.md", "the figures")
    with LabelStore.beside(world.journal.path) as store:
        store.add(str(world.folder), ["docs/a.md"], held)
    world.policy = replace(POLICY, agent=AgentRule(tools=("READ_FILE",)))
    model = world.more["turn"] = Model({"tool": "read_file", "args": {"path": "docs/a.md"}}, {"finish": "x"})
    plan = 'S1: @AGENT_SOLVE ("go") > $a ON_FAIL GOTO S2\nS2: @RESPOND ("done")'
    outcome = await world.run(plan, facts=AGENT)
    assert len(model.heard) == 1 + is_told
    if not is_told:
        found = refusal(outcome)
        assert (found.step, found.tool, found.rule) == ("S1", "READ_FILE", "flow")
        assert "would reach the language model" in found.message


@pytest.mark.parametrize(("returns", "is_given"), [("T/secret", False), ("U/priv", True)])
def test_tool_with_data_hidden_from_models_is_given_to_no_agent(returns: str, is_given: bool) -> None:
    own = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label(returns))
    policy = replace(POLICY, agent=AgentRule(tools=("VAULT",)), tools={**POLICY.tools, "VAULT": own})
    found = verify(plan_of('S1: @AGENT_SOLVE ("go") > $a\nS2: @NOTE ("done") > $b'), policy).violations
    assert [str(v.rule) for v in found] == ([] if is_given else ["flow"])


@pytest.mark.parametrize("times_out", [True, False])
async def test_retry_extends_no_agent_deadline(
    world: World, monkeypatch: pytest.MonkeyPatch, times_out: bool
) -> None:
    """Neither a retry after a model failure, nor one after its deadline."""
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), seconds=600))
    now = [time.time()]
    monkeypatch.setattr("callsheet.runtime.guard.Guard", partial(Guard, clock=lambda: now[0]))
    model = Model(note("a"), ToolFailed("busy"), note("b"), note("c"), {"finish": "done"})

    async def turn(command: Any, context: CallContext) -> JSON:
        now[0] += 250 if times_out else 100
        said = await model(command, context)
        if isinstance(said, ToolFailed):
            raise said
        return said

    world.more["turn"] = turn
    plan = 'S1: @AGENT_SOLVE ("go") > $a ON_FAIL @RETRY(3) TERMINATE ("$a")\nS2: @RESPOND ($a)'
    outcome = await world.run(plan, facts=AGENT)
    assert outcome.result is not None
    if times_out:
        assert "its time under the policy has run out" in outcome.result.response
        assert len(model.heard) == 3
    else:
        assert outcome.result.response == "done"


async def test_resumed_agent_keeps_deadline_of_first_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), seconds=600))
    model = Model(note("a"), ToolFailed("busy"), None)

    async def turn(command: Any, context: CallContext) -> JSON:
        said = await model(command, context)
        if isinstance(said, ToolFailed):
            raise said
        return said

    world.more["turn"] = turn
    plan = 'S1: @AGENT_SOLVE ("go") > $a ON_FAIL @RETRY(3) TERMINATE ("$a")\nS2: @RESPOND ($a)'
    running = asyncio.create_task(world.run(plan, facts=AGENT))
    async with asyncio.timeout(50):
        await model.hangs.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    monkeypatch.setattr("callsheet.runtime.guard.Guard", partial(Guard, clock=lambda: time.time() + 601))
    world.more["turn"] = Model(note("b"), {"finish": "done"})
    outcome = await world.resume()
    assert outcome.result is not None
    assert "its time under the policy has run out" in outcome.result.response


@pytest.mark.parametrize("host", ["api.internal", "docs.example"])
async def test_private_data_seen_by_agent_decides_no_external_call(world: World, host: str) -> None:
    """A call without arguments only reveals that it is made."""
    pinged: list[Any] = []

    async def fetch(args: dict[str, Any], context: CallContext) -> JSON:
        return f"the page of {args['url']}"

    async def ping(args: dict[str, Any], context: CallContext) -> JSON:
        pinged.append(args)
        return "pong"

    world.tools |= {"FETCH_PAGE": fetch, "PING": ping}
    world.policy = replace(
        POLICY,
        audiences=(Audience(name="trusted", hosts=("api.internal",)),),
        tools={**POLICY.tools, "PING": ToolRule(destructive=False, returns=read_label("T/pub"))},
        agent=AgentRule(tools=("FETCH_PAGE", "PING")),
    )
    facts = {
        "AGENT_SOLVE": ToolFacts(loop=Loop(("FETCH_PAGE", "PING"))),
        "FETCH_PAGE": ToolFacts(Effect.READ, ("url",)),
        "PING": ToolFacts(Effect.READ),
    }
    world.more["turn"] = Model(
        {"tool": "fetch_page", "args": {"url": f"https://{host}/salaries"}},
        {"tool": "ping", "args": {}},
        {"finish": "x"},
    )
    outcome = await world.run('S1: @AGENT_SOLVE ("go") > $a\nS2: @RESPOND ("done")', facts=facts)
    if host == "docs.example":
        assert (answer_of(outcome), pinged) == ("done", [{}])
        return
    found = refusal(outcome)
    assert (found.tool, found.rule, pinged) == ("PING", "implicit-flow", [])
