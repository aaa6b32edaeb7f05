"""A runtime with an address gives what one with the tools gives, and outlives the loss of its connection."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.apps.http.conftest import TOKEN, Api, plan_of, running

from callsheet import (
    Answer,
    CallsheetError,
    Limits,
    Plan,
    PlanError,
    PolicyRefused,
    RemoteRuntime,
    RunFilter,
    RunResult,
    RunStatus,
    Runtime,
    TookPlace,
)
from callsheet.api.policies import load_policy

BLOCKS = '# ltp: 2\nINPUT $n: int\nS1: @ADD (a=$n) > $m\nS2: @RESPOND ({"m": $m})\n'
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "done": (plan_of("S1: @ADD (a=$n, b=2) > $m", "S2: @RESPOND ($m)"), {"inputs": {"n": 40}}),
    "blocks": (BLOCKS, {"inputs": {"n": 1}}),
    "graph": (
        '{"steps": [{"index": "S1", "title": "", "tool": "add", "args": {"a": 1}, "depends_on": []}]}',
        {},
    ),
    "a parsed plan": (Plan.parse("@add a=1 > x", syntax="micro"), {}),
    "failed": (plan_of("S1: @ADD (a=$n) > $m"), {"inputs": {"n": "x"}}),
    "done with failures": (plan_of("S1: @ADD (a=$n) > $m", "S2: @RESPOND (1)"), {"inputs": {"n": "x"}}),
    "terminated": (plan_of('S1: TERMINATE "enough"'), {}),
    "a limit": (plan_of("S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $b"), {"limits": Limits(max_calls=1)}),
    "a question": (plan_of('S1: @ASK_HUMAN ("Which?") > $a', "S2: @RESPOND ($a)"), {}),
    "tags": (plan_of("S1: @RESPOND (1)"), {"run_tags": {"env": "prod"}}),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runtime, RemoteRuntime, Path]]:
    """A runtime with tools, and one with the address of a server with the same tools."""
    from tests.apps.waiting_tools import TOOLS

    folder, patch = tmp_path_factory.mktemp("both"), pytest.MonkeyPatch()
    (folder / "tools.py").write_text(TOOLS)
    patch.chdir(folder)
    patch.setenv("XDG_DATA_HOME", str(folder))
    with (
        running(folder, allow_hosts=("127.0.0.1",)) as api,
        Runtime(tools=[folder / "tools.py"], journal=folder / "own.db") as own,
        Runtime.at(api.url, token=TOKEN) as remote,
    ):
        yield own, remote, folder
    patch.undo()


def comparable(result: RunResult) -> RunResult:
    """A result without the times and prefixes that differ between two runs."""
    waiting = tuple(replace(ask, since=0.0) for ask in result.waiting)
    return replace(result, waiting=waiting)


@pytest.mark.parametrize("case", CASES)
def test_result_is_that_of_the_library(both, case):
    own, remote, _ = both
    plan, options = CASES[case]
    name = case.replace(" ", "-")
    given = {**options, "run_id": name}
    here, there = own.run_sync(plan, **given), remote.run_sync(plan, **given)
    assert comparable(there) == comparable(here)
    assert there.outcome is here.outcome
    assert there.usage.calls_by_tool == here.usage.calls_by_tool
    assert [d.code for d in there.diagnostics] == [d.code for d in here.diagnostics]
    assert comparable(remote.resume_sync(name)) == comparable(here)
    mine, theirs = own.tail_sync(name), remote.tail_sync(name)
    assert [(e.seq, e.type, e.key, e.step) for e in theirs] == [(e.seq, e.type, e.key, e.step) for e in mine]
    (row,), (listed,) = ([run for run in each.runs_sync() if run.run_id == name] for each in (own, remote))
    assert replace(listed, created=0, updated=0, ended=None) == replace(row, created=0, updated=0, ended=None)


def test_findings_point_into_the_text_that_was_given(both):
    own, remote, folder = both
    text = plan_of("S1: @AD (a=1) > $x", "S2: @RESPOND ($x)")
    assert str(remote.check_sync(text)) == str(own.check_sync(text))
    (folder / "p.ltp").write_text(text)
    for runtime in (own, remote):
        with pytest.raises(PlanError) as told:
            runtime.run_sync("p.ltp")
        assert str(told.value).startswith("p.ltp:3:5: error CHK040: no tool is called @AD")
    with pytest.raises(PlanError, match="LTP022"):
        remote.run_sync("S1: @ADD (a=)")


def test_policy_of_the_server_refuses_as_one_of_the_library(folder):
    plan = plan_of('S1: @NOTE (line="a") > $x')
    with running(folder, policy=load_policy("strict")) as api, pytest.raises(PolicyRefused) as there:
        Runtime.at(api.url, token=TOKEN).run_sync(plan)
    own = Runtime(tools=[folder / "tools.py"], policy="strict")
    with pytest.raises(PolicyRefused) as here:
        own.run_sync(plan)
    assert [d.code for d in there.value.diagnostics] == [d.code for d in here.value.diagnostics]


def test_questions_are_answered_and_waited_for(both):
    _, remote, _ = both
    plan = plan_of('S1: @ASK_HUMAN ("Which?") > $a', "S2: @RESPOND ($a)")
    assert remote.run_sync(plan, run_id="asks").status is RunStatus.WAITING
    (ask,) = [each for each in remote.inbox_sync() if each.run_id == "asks"]
    assert ask.prompt == "Which?"
    with pytest.raises(CallsheetError, match="RUN031"):
        remote.answer_sync("asks", answer="blue")  # type: ignore[arg-type]
    assert remote.answer_sync("asks", ask.key, Answer.of("blue"), digest=ask.digest).key == ask.key
    assert remote.resume_sync("asks").response == "blue"


def test_calls_in_doubt_are_decided(folder):
    with running(folder) as api:
        api.start('S1: @WRITE (name="gate") > $x', "S2: @ADD (a=1) > $y", "S3: @RESPOND ($x)", run_id="doubt")
        while not (folder / "gate.began").exists():
            time.sleep(0.01)
    with running(folder) as api, Runtime.at(api.url, token=TOKEN) as remote:
        (call,) = remote.resume_sync("doubt").in_doubt
        assert (call.tool, call.args) == ("WRITE", {"name": "gate"})
        assert remote.calls_in_doubt_sync() == {"doubt": (call,)}
        assert remote.decide_sync("doubt", call.key, TookPlace("done")).status is RunStatus.RUNNING
        assert remote.resume_sync("doubt").response == "done"


def test_new_runs_from_old_ones_need_consent(both):
    _, remote, folder = both
    (folder / "notes.txt").unlink(missing_ok=True)
    remote.run_sync(plan_of('S1: @NOTE (line="a") > $x', "S2: @RESPOND ($x)"), run_id="old")
    shown: list[Any] = []

    def agrees(calls: Any) -> bool:
        shown.append([call["tool"] for call in calls])
        return len(shown) > 1

    def agrees_to_undo(preview: Any) -> bool:
        shown.append(preview["text"])
        return not preview["irreversible"]

    with pytest.raises(CallsheetError, match="JRN083"):
        remote.rerun_sync("old", "S1", effects=agrees)
    assert remote.rerun_sync("old", "S1", effects=agrees, new_id="new").run_id == "new"
    assert shown == [["NOTE"], ["NOTE"]]
    assert remote.fork_sync("old", 3, variables={"x": "edited"}).response == "edited"
    assert remote.undo_sync("new", effects=agrees_to_undo).ok
    assert "1 call" in shown.pop()[0]
    assert (folder / "notes.txt").read_text() == ""  # the tool takes back every such line


def test_run_goes_on_without_its_program_and_is_cancelled_by_its_id(both):
    _, remote, _ = both

    async def main() -> None:
        async with Runtime.at(remote.address, token=TOKEN) as there:
            run = there.start(plan_of('S1: @HOLD (name="never") > $x'), run_id="long")
            async for event in run:
                if event.type == "intent":
                    break
            assert [d.code for d in await run.started()] == ["CHK015"]
            assert (await there.result("long")).status is RunStatus.RUNNING
            with pytest.raises(CallsheetError, match="JRN004"):
                await there.resume("long", in_doubt="skip")
            ended = await there.cancel("long", "enough")
            assert ended is not None
            assert ended.error == "enough"
            assert await run.result() == ended

    asyncio.run(main())
    assert [run.run_id for run in remote.runs_sync(where=RunFilter(status="cancelled"))] == ["long"]
    assert remote.get_sync("/v1/runs/long")["status"] == "cancelled"


class Cut:
    """A relay before a server that breaks off every connection after some bytes of the response."""

    def __init__(self, api: Api, cuts: list[int]) -> None:
        self.cuts = cuts
        self._to = ("127.0.0.1", int(api.url.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._to) as far:
            there = threading.Thread(target=self._pass, args=(near, far, None), daemon=True)
            there.start()
            self._pass(far, near, self.cuts.pop(0) if self.cuts else None)
            there.join()

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, most: int | None) -> None:
        try:
            while part := source.recv(65_536):
                target.sendall(part if most is None else part[:most])
                most = None if most is None else most - len(part)
                if most is not None and most <= 0:
                    break
        except OSError:
            pass
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def test_lost_connections_start_no_run_twice_and_lose_no_event(both):
    _, remote, folder = both
    (folder / "notes.txt").unlink(missing_ok=True)
    steps = [f'S{n}: @NOTE (line="{n}") > $x' for n in range(1, 6)]
    for cut in (300, 1500):  # the response to the start is lost; the stream breaks off here or there
        (folder / "notes.txt").unlink(missing_ok=True)
        place = remote.address.rpartition(":")[2]
        relay = Cut(Api(f"http://127.0.0.1:{place}", folder), [0, cut, cut, 40])
        there = Runtime.at(relay.url, token=TOKEN)

        async def main(there: RemoteRuntime = there, cut: int = cut) -> list[int]:
            run = there.start(plan_of(*steps), run_id=f"cut{cut}")
            seen = [event.seq async for event in run]
            assert (await run.result()).ok
            return seen

        seen = asyncio.run(main())
        relay.close()
        assert seen == [event.seq for event in remote.tail_sync(f"cut{cut}")]
        assert (folder / "notes.txt").read_text() == "1\n2\n3\n4\n5\n"


JSON = "application/json"


async def followed(there: RemoteRuntime, run_id: str) -> list[Any]:
    return [event async for event in there.tail(run_id, follow=True)]


class Elsewhere(BaseHTTPRequestHandler):
    """A server of another kind, which answers everything."""

    def do_GET(self) -> None:
        body, kind = b"<p>hi", "text/html"
        if "inbox" in self.path:
            body, kind = b'{"asks": [], "in_doubt": [{"key": "S1"}]}', "application/json"
        if "sort=" in self.path:
            body, kind = b'{"runs": []}' if "sort=name" in self.path else b'{"runs": [], "more": true}', JSON
        if self.path.endswith("/journal?after=0"):
            body, kind = b'[{"type": "run.started"}]', JSON
        if self.path.endswith("/events?after=0"):
            sent = {"seq": b'data: {"type": "x"}', "no": b"event: standing\ndata: {}", "text": b"data: x"}
            body, kind = sent[self.path.split("/")[3]] + b"\n\n", "text/event-stream"
        if "half" in self.path or "sort=cost" in self.path:
            body, kind = b'{"status": "x", "runs": [{"run_id": "a", "status": "x"}]}', "application/json"
        self.send_response(404 if "lost" in self.path else 200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def test_server_that_is_none_is_named(both):
    _, remote, _ = both
    with pytest.raises(CallsheetError, match="API060"):
        Runtime.at("http://127.0.0.1:1", patience=0).runs_sync()
    with pytest.raises(ValueError, match="no address of a server"):
        Runtime.at("plans.example")
    with pytest.raises(CallsheetError, match="API001"):
        Runtime.at(remote.address, token="wrong").runs_sync()
    with pytest.raises(CallsheetError, match="API009"):
        Runtime.at(f"{remote.address}/elsewhere", token=TOKEN).runs_sync()
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever).start()
        there = Runtime.at(f"http://127.0.0.1:{server.server_port}")
        for call in (
            there.runs_sync,
            there.calls_in_doubt_sync,
            lambda: there.runs_sync(sort="name"),
            lambda: there.runs_sync(sort="created"),
            lambda: there.tail_sync("any"),
            *(lambda name=name: asyncio.run(followed(there, name)) for name in ("seq", "no", "text")),
            lambda: there.result_sync("lost"),
            lambda: there.result_sync("half"),
            lambda: there.runs_sync(sort="cost"),
        ):
            with pytest.raises(CallsheetError, match="API061"):
                call()
        server.shutdown()


def test_bad_arguments_reach_no_server(both):
    _, remote, _ = both
    with pytest.raises(CallsheetError, match="JRN001"):
        remote.cancel_sync("../v1/inbox?")
    with pytest.raises(ValueError, match="no page of the API"):
        remote.get_sync("//elsewhere.example/v1/runs")
    with pytest.raises(ValueError, match="has a query"):
        remote.get_sync("/v1/runs?status=failed")
    with pytest.raises(CallsheetError, match=r"RUN022.*\$key"):
        remote.run_sync(BLOCKS, {"n": 1}, secrets={"key": 5})
    with pytest.raises(CallsheetError, match="SEC005"):
        remote.run_sync(BLOCKS, {"n": 1}, secrets={"n": "1"})


def test_lists_tell_who_has_paused_a_run(both):
    _, remote, _ = both
    run = remote.run_sync(plan_of('S1: @ASK_HUMAN ("Which?") > $a', "S2: @RESPOND ($a)"), run_id="resting")
    assert run.status is RunStatus.WAITING
    made = remote.pause_sync("resting", by="ada", reason="prices")
    (listed,) = remote.runs_sync(status="paused")
    assert made is not None
    assert (listed.run_id, listed.pause) == ("resting", made)


def test_times_of_runs_are_conditions(both):
    _, remote, _ = both
    remote.run_sync(plan_of("S1: @RESPOND (1)"), run_id="timed")
    (run,) = remote.runs_sync(limit=1)
    assert run.run_id == "timed"
    assert remote.runs_sync(where=RunFilter(since=run.created + 1)) == []
    assert run in remote.runs_sync(where=RunFilter(since=run.created - 1, until=run.created + 1))
