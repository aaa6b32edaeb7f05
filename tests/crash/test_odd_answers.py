"""Odd answers of a tool: the call is recorded once, with one effect; servers may change on restart.

Each run has a journal and is resumed afterwards: the recorded values are those that the plan got.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import forked

from callsheet import RunResult, RunStatus, Runtime, tool
from callsheet.ports.mcp import transport
from callsheet.store import EventType, Journal

pytestmark = pytest.mark.crash
SERVERS = Path(__file__).parent / "servers"
WORKSHOP = Path(__file__).parents[1] / "ports" / "servers" / "workshop.py"
FICKLE = Path(__file__).parents[1] / "ports" / "servers" / "fickle.py"
PLAN = "S1: @GIVE ($what) > $a\nS2: @RESPOND ('after')"


class World:
    """A journal, and how often the one tool was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.db"
        self.notes = folder / "notes"

    @property
    def effects(self) -> int:
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0

    def server(self, seconds: float = 30.0) -> dict[str, Any]:
        """A server with unusual answers; its tool is undeclared, so it is unsafe."""
        command = [str(SERVERS / "odd.py"), str(self.notes)]
        return {"odd": {"command": sys.executable, "args": command, "timeout": seconds}}

    def events(self) -> list[EventType]:
        with Journal.open(self.journal) as journal:
            assert journal.verify("r") is None
            return [event.type for event in journal.events("r")]

    async def run(self, plan: str = PLAN, seconds: float = 30.0, **inputs: Any) -> RunResult:
        async with Runtime(mcp=self.server(seconds), data=self.folder, journal=self.journal) as runtime:
            return await runtime.run(plan, inputs, run_id="r")

    async def resume(self) -> RunResult:
        async with Runtime(mcp=self.server(), data=self.folder, journal=self.journal) as runtime:
            return await runtime.resume("r")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("what", "value"),
    [
        (0, ""),
        (100_000, "x" * 100_000),
        (3_000_000, "x" * 3_000_000),
        (20_000_000, "x" * 20_000_000),
        ("not utf-8", "caf\ufffd"),
        ("nan", {"n": None}),
    ],
    ids=["0 B", "100 KB", "3 MB", "20 MB", "not UTF-8", "NaN"],
)
async def test_answer_of_any_size_and_spelling_is_stored_after_one_call(
    world: World, what: int | str, value: object
) -> None:
    result = await world.run(what=what)
    assert (result.status, result.response) == (RunStatus.DONE, "after")
    assert result.variables["a"] == value
    assert world.effects == 1
    again = await world.resume()
    assert again.variables["a"] == value
    assert world.effects == 1
    assert world.events().count(EventType.OK) == 1


@pytest.mark.servers
@pytest.mark.parametrize(
    ("what", "seconds", "why"),
    [
        ("no json", 0.5, "no answer within 0.5 s"),
        ("too late", 0.3, "no answer within 0.3 s"),
        ("no result", 30.0, "answered with an invalid result"),
        ("no end of line", 30.0, "longer than 256 MiB"),
    ],
)
async def test_invalid_answer_leaves_call_in_doubt_despite_retries(
    world: World, what: str, seconds: float, why: str
) -> None:
    plan = "S1: @GIVE ($what) > $a ON_FAIL @RETRY(3)\nS2: @RESPOND ('after')"
    result = await world.run(plan, seconds, what=what)
    assert result.status is RunStatus.IN_DOUBT
    (call,) = result.in_doubt
    assert why in call.why
    assert (await world.resume()).status is RunStatus.IN_DOUBT
    assert world.effects == 1
    assert world.events().count(EventType.IN_DOUBT) == 1


@pytest.mark.servers
@pytest.mark.parametrize("what", ["300 MB", "300 MB, then whose"])
async def test_oversized_answer_is_skipped_and_its_call_fails(
    world: World, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MAX_MESSAGE", 20 << 20)
    plan = "S1: @GIVE ($what) > $a ON_FAIL @RETRY(3) GOTO S2\nS2: @GIVE (100) > $b\nS3: @RESPOND ($a)"
    result = await world.run(plan, what=what)
    assert result.status is RunStatus.DONE
    assert result.response == "the answer is longer than 20 MiB, the limit: request less"
    assert (world.effects, result.variables["b"]) == (2, "x" * 100)
    assert (await world.resume()).response == result.response
    assert world.events().count(EventType.ERR) == 1


def _python(world: World, give: Callable[[Any], Any]) -> Callable[..., Any]:
    @tool(effect="unsafe", name="give")
    def counted(what: Any) -> Any:
        with world.notes.open("a") as file:
            file.write(f"{what}\n")
        return give(what)

    return counted


_LOOP: list[Any] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize(
    ("given", "value"),
    [("", ""), ("x" * 100_000_000, "x" * 100_000_000), ("\ud800", "\ud800"), (b"caf\xe9", "Y2Fm6Q==")],
    ids=["0 B", "100 MB", "lone surrogate", "bytes"],
)
async def test_any_function_result_is_recorded_after_one_call(
    world: World, given: object, value: object
) -> None:
    async with Runtime([_python(world, lambda _: given)], journal=world.journal) as runtime:
        result = await runtime.run(PLAN, {"what": 1}, run_id="r")
        again = await runtime.resume("r")
    assert result.variables["a"] == again.variables["a"] == value
    assert (result.response, world.effects, world.events().count(EventType.OK)) == ("after", 1, 1)


@pytest.mark.parametrize(
    ("what", "value", "remarks"),
    [
        ("nan", {"n": None}, ["numbers that JSON cannot express became null: 1"]),
        (
            "repeated keys",
            {"n": None, "rows": [{"a": 3, "b": 2}]},
            [
                "numbers that JSON cannot express became null: 1",
                'of repeated keys, the last value counts: "a", "n"',
            ],
        ),
        ("not utf-8", "caf\ufffd", []),
    ],
)
async def test_dropped_parts_of_answer_are_remarked(
    world: World, what: str, value: object, remarks: list[str]
) -> None:
    result = await world.run(what=what)
    assert result.variables["a"] == value
    with Journal.open(world.journal) as journal:
        (body,) = (event.body or {} for event in journal.events("r") if event.type is EventType.OK)
    assert [remark["text"] for remark in body.get("remarks", [])] == remarks


@pytest.mark.parametrize(
    "given",
    [object(), _LOOP, 10**5_000, float("nan")],
    ids=["object", "endless", "too many digits", "NaN"],
)
async def test_result_that_is_not_json_fails_call_once(world: World, given: object) -> None:
    plan = 'S1: @GIVE ($what) > $a ON_FAIL GOTO S3\nS2: @RESPOND ("not here")\nS3: @RESPOND ("failed: $a")'
    async with Runtime([_python(world, lambda _: given)], journal=world.journal) as runtime:
        result = await runtime.run(plan, {"what": 1}, run_id="r")
        again = await runtime.resume("r")
    assert (result.status, again.response) == (RunStatus.DONE, result.response)
    assert result.response.startswith("failed: ")
    assert (world.effects, world.events().count(EventType.ERR)) == (1, 1)


# ---------------------------------------------------------------- servers that die, restart, change


def _workshop(world: World) -> dict[str, Any]:
    reads = {"effects": dict.fromkeys(("die", "texts", "moody"), "read")}
    return {"workshop": {**forked.server(WORKSHOP, "stdio", world.notes), "callsheet": reads}}


@pytest.mark.servers
async def test_dead_server_fails_its_call_and_restarts_for_next(world: World) -> None:
    plan = (
        'S1: @DIE ("out of ink") > $a ON_FAIL GOTO S3\nS2: @RESPOND ("not here")\n'
        'S3: @TEXTS () > $b\nS4: @RESPOND ("$a", "$b")'
    )
    async with Runtime(mcp=_workshop(world), data=world.folder, journal=world.journal) as runtime:
        result = await runtime.run(plan, run_id="r")
    assert result.status is RunStatus.DONE
    assert "out of ink" in result.variables["a"]
    assert result.variables["b"] == ["one", "two"]
    assert world.notes.read_text().splitlines().count("start") == 2
    assert EventType.ERR in world.events()


@pytest.mark.servers
async def test_tool_redeclared_by_restarted_server_is_not_called(world: World) -> None:
    plan = (
        'S1: @DIE ("bye") > $a ON_FAIL GOTO S2\n'
        'S2: @MOODY () > $b ON_FAIL GOTO S4\nS3: @RESPOND ("called: $b")\nS4: @RESPOND ("$b")'
    )
    async with Runtime(mcp=_workshop(world), data=world.folder, journal=world.journal) as runtime:
        result = await runtime.run(plan, run_id="r")
    assert result.status is RunStatus.DONE
    assert result.response.endswith("is declared differently now (description); not called")
    assert "moody" not in world.notes.read_text()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("change", "then", "why"),
    [("change", "look", "is declared differently now"), ("drop", "spare1", "is no longer offered")],
)
async def test_tool_changed_or_removed_during_run_fails_its_call(
    world: World, change: str, then: str, why: str
) -> None:
    servers = {"fickle": {"command": sys.executable, "args": [str(FICKLE)]}}
    plan = (
        f"S1: @{then.upper()} () > $a\nS2: @{change.upper()} ()\n"
        f'S3: @{then.upper()} () > $b ON_FAIL GOTO S5\nS4: @RESPOND ("called")\nS5: @RESPOND ("$a", "$b")'
    )
    async with Runtime(mcp=servers, data=world.folder, journal=world.journal) as runtime:
        result = await runtime.run(plan, run_id="r")
    assert result.response.startswith("ok ")
    assert why in result.response
    with Journal.open(world.journal) as journal:
        told = [(e.type, e.step) for e in journal.events("r") if e.type in (EventType.OK, EventType.ERR)]
    assert told == [(EventType.OK, "S1"), (EventType.OK, "S2"), (EventType.ERR, "S3")]


@pytest.mark.servers
async def test_run_is_not_resumed_if_server_redeclared_its_tool(world: World) -> None:
    """Between the crash and the resume the server is replaced."""
    plan = 'S1: @ASK_HUMAN ("go on?") > $w\nS2: @GIVE ($what) > $a\nS3: @RESPOND ("after")'
    assert (await world.run(plan, what=3)).status is RunStatus.WAITING
    other = world.folder / "other.py"
    declared = '"properties": {"what": {}}'
    text = (SERVERS / "odd.py").read_text()
    assert declared in text
    other.write_text(text.replace(declared, '"properties": {"what": {"type": "integer"}}'))
    servers = {"odd": {"command": sys.executable, "args": [str(other), str(world.notes)]}}
    async with Runtime(mcp=servers, data=world.folder, journal=world.journal) as runtime:
        await runtime.answer("r")
        with pytest.raises(Exception, match="JRN021"):
            await runtime.resume("r")
        assert world.effects == 0
        result = await runtime.resume("r", accept_changed_tools=True)
    assert (result.response, json.dumps(result.variables["a"])) == ("after", '"xxx"')
    assert world.effects == 1
