"""A host carries many runs in one process: none is lost; each can be watched, cancelled and resumed."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.apps.waiting_tools import TOOLS
from tests.waiting import until

from apps.conftest import SERVER
from callsheet.api.policies import load_policy
from callsheet.api.proving import PolicyRefused
from callsheet.apps.hosting import ForkRequest, Host, RerunRequest, ResumeOptions, RunRequest, RunState
from callsheet.apps.hosting.collector import LARGE
from callsheet.apps.hosting.recorded import CallReports, SharedReadings, delete_run
from callsheet.apps.hosting.run_queue import Attempts, Capacity
from callsheet.apps.hosting.service import Listeners, tightened
from callsheet.apps.operations.live_calls import CallReport
from callsheet.apps.operations.reading import text_of
from callsheet.apps.settings import Settings
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Source
from callsheet.ir import Step
from callsheet.machine import Decision, Limits
from callsheet.ports.calls import CallProgress
from callsheet.runtime.answers import Answer
from callsheet.runtime.forking import Edits, NeedsConsent
from callsheet.sealing.keys import WITHHELD
from callsheet.store import Journal, RunStatus
from callsheet.store.events import Event
from callsheet.store.journal_paths import place_of


def request(*steps, **more):
    text = "\n".join(["# ltp: 1", "PLAN_START", *steps, "PLAN_END", ""])
    return RunRequest(text=text_of(None, Source("plan", text), variables=more.get("inputs", ())), **more)


def setup_of(folder, **settings):
    return Setup(
        workspace=folder,
        data=folder / "data",
        tools_files=(folder / "tools.py",),
        discovers=False,
        settings=Settings(**settings),
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


@asynccontextmanager
async def open_host(folder, *, settings=None, **more):
    with Journal.open(folder / "journal.db") as journal:
        async with Host(setup_of(folder, **(settings or {})), journal, **more) as host:
            yield host


async def began(name):
    await until(Path(f"{name}.began").exists)


async def stands(host, run_id, status):
    async with asyncio.timeout(60):
        while host.state(run_id).status != status:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


def touch(name):
    Path(name).touch()


def notes():
    path = Path("notes.txt")
    return path.read_text().split() if path.exists() else []


def codes(caught):
    return [d.code for d in caught.value.diagnostics]


async def test_run_is_journaled_before_request_is_answered(folder):
    async with open_host(folder) as host:
        started = await host.start(request("S1: @ADD (a=$n) > $m", 'S2: @RESPOND ("$m")', inputs={"n": 41}))
        assert host.journal.find_run(started.run_id).events >= 1
        outcome = await host.outcome(started.run_id)
        assert (str(outcome.result.status), outcome.result.response) == ("done", "42")
        assert host.state(started.run_id).is_final
        assert host.journal.verify(started.run_id) is None


async def test_runs_beyond_limit_are_queued_and_none_is_lost(folder):
    async with open_host(folder, capacity=Capacity(2)) as host:
        runs = [
            (await host.start(request('S1: @HOLD (name="go") > $x', run_id=f"r{n}"))).run_id for n in range(6)
        ]
        await began("go")
        await until(lambda: [host.state(r).status for r in runs].count("running") == 2)
        assert [host.state(r).status for r in runs].count("queued") == 4
        touch("go")
        for run in runs:
            assert str((await host.outcome(run)).result.status) == "done"


async def test_full_queue_refuses_run(folder):
    async with open_host(folder, capacity=Capacity(1, 1)) as host:
        for _ in range(2):
            await host.start(request('S1: @HOLD (name="never") > $x'))
        with pytest.raises(CallsheetError) as caught:
            await host.start(request('S1: @HOLD (name="never") > $x'))
        assert codes(caught) == ["API011"]
        assert len(host.journal.runs()) == 2


async def test_concurrent_requests_count_together(folder):
    async with open_host(folder, capacity=Capacity(1, 1)) as host:
        starts = [host.start(request('S1: @HOLD (name="never") > $x', run_id=f"r{n}")) for n in range(5)]
        came = await asyncio.gather(*starts, return_exceptions=True)
        refused = [each for each in came if isinstance(each, CallsheetError)]
        assert [error.diagnostics[0].code for error in refused] == ["API011"] * 3
        assert len(host.journal.runs()) == 2


async def test_of_two_concurrent_resumes_one_succeeds(folder):
    async with open_host(folder) as host:
        await host.start(request('S1: @HOLD (name="never") > $x', run_id="r"))
        await began("never")
    async with open_host(folder) as host:
        came = await asyncio.gather(*(host.resume("r") for _ in range(3)), return_exceptions=True)
        refused = [each for each in came if isinstance(each, CallsheetError)]
        assert [error.diagnostics[0].code for error in refused] == ["JRN004"] * 2
        assert len(host.hosted_runs()) == 1


async def test_queued_and_running_runs_continue_in_next_host(folder):
    async with open_host(folder, capacity=Capacity(1)) as host:
        first = (await host.start(request('S1: @HOLD (name="go") > $x', 'S2: @RESPOND ("$x")'))).run_id
        second = (await host.start(request("S1: @ADD (a=1) > $x", 'S2: @RESPOND ("$x")'))).run_id
        await began("go")
    with Journal.open_to_read(folder / "journal.db") as journal:
        assert [info.status for info in journal.runs()] == [RunStatus.RUNNING] * 2
    touch("go")
    async with open_host(folder) as host:
        assert {host.state(run).status for run in (first, second)} == {"interrupted"}
        for run, said in ((first, "go"), (second, "2")):
            await host.resume(run)
            assert (await host.outcome(run)).result.response == said


async def test_graceful_close_lets_runs_end_and_accepts_no_more(folder):
    async with open_host(folder) as host:
        run = (await host.start(request('S1: @HOLD (name="go") > $x'))).run_id
        await began("go")
        closing = asyncio.create_task(host.close(patience=20))
        await asyncio.sleep(0)
        with pytest.raises(CallsheetError) as caught:
            await host.start(request("S1: @ADD (a=1) > $x"))
        assert codes(caught) == ["API016"]
        touch("go")
        await closing
        assert host.journal.find_run(run).status is RunStatus.DONE


async def test_invalid_plan_is_refused_with_positions_and_leaves_nothing(folder):
    async with open_host(folder) as host:
        with pytest.raises(CallsheetError) as caught:
            await host.start(request("S1: @AD (a=1) > $x"))
        assert codes(caught)[0] == "CHK040"
        assert caught.value.source.position(caught.value.diagnostics[0].span.start)[0] == 3
        with pytest.raises(CallsheetError):
            await host.start(request("S1: what"))
        await host.start(request("S1: @ADD (a=1) > $x", run_id="r"))
        with pytest.raises(CallsheetError) as caught:
            await host.start(request("S1: @ADD (a=1) > $x", run_id="r"))
        assert codes(caught) == ["JRN003"]
        assert [info.run_id for info in host.journal.runs()] == ["r"]


async def test_each_watcher_gets_every_event_once_and_status_and_what_tools_report(folder):
    async with open_host(folder) as host:
        run = (await host.start(request('S1: @HOLD (name="go") > $x', 'S2: @RESPOND ("$x")'))).run_id
        events, states, reports = [], [], []
        kinds = {RunState: states, CallReports: reports}

        async def watch():
            async for told in host.watch(run):
                kinds.get(type(told), events).append(told)

        async def heard(after):
            return [told.seq async for told in host.watch(run, after) if isinstance(told, Event)]

        watching = asyncio.create_task(watch())
        others = [asyncio.create_task(heard(after)) for after in (0, 0, 1, 2) * 10]
        gone = asyncio.create_task(heard(0))
        await began("go")
        await until(lambda: len(events) >= 2 and reports)
        gone.cancel()  # what others wait for, too, goes on
        touch("go")
        await asyncio.wait_for(watching, 60)
        info = host.journal.find_run(run)
        everything = [*range(1, info.events + 1)]
        assert await asyncio.gather(*others) == [everything[after:] for after in (0, 0, 1, 2) * 10]
        assert [event.seq for event in events] == [*range(1, info.events + 1)]
        assert states[-1].status == "done"
        assert reports[0].calls == [
            CallReport("S1.0.1", CallProgress(1, 4, "rows"), ("opened", "rows")),
        ]
        assert await heard(2) == everything[2:]


async def test_watcher_sees_events_of_another_process(folder):
    async with open_host(folder) as here, open_host(folder) as there:
        run = (await there.start(request('S1: @HOLD (name="go") > $x'))).run_id
        await began("go")
        seen = []

        async def watch():
            async for told in here.watch(run):
                seen.append(told)

        watching = asyncio.create_task(watch())
        await until(lambda: seen)
        readings = SharedReadings(here.journal, here.beside, here.state, fresh=60)
        with readings.of(run):
            begun = here.state(run)
            await readings.page(run, None, begun.events, begun)
            touch("go")
            await asyncio.wait_for(watching, 60)
            ended = await readings.state(run, None)
            page = await readings.page(run, None, begun.events, ended)
        assert seen[-1].status == ended.status == "done"
        assert page.events[-1].seq == ended.events  # it is not the page that was read before the end


@pytest.mark.parametrize("stage", ["running", "queued", "interrupted"])
async def test_run_is_cancelled_in_any_state(folder, stage):
    async with open_host(folder, capacity=Capacity(1)) as host:
        await host.start(request('S1: @HOLD (name="never") > $x', run_id="a"))
        await began("never")
        await host.start(request('S1: @HOLD (name="never") > $x', run_id="b"))
        run = "b" if stage == "queued" else "a"
        if stage != "interrupted":
            outcome = await host.cancel(run, "enough")
            assert (str(outcome.result.status), outcome.result.error) == ("cancelled", "enough")
            with pytest.raises(CallsheetError) as caught:
                await host.cancel(run)
            assert codes(caught) == ["JRN032"]
            return
    async with open_host(folder) as host:
        assert str((await host.cancel(run)).result.status) == "cancelled"


async def test_decided_run_continues(folder):
    async with open_host(folder) as host:
        await host.start(request('S1: @WRITE (name="never") > $x', 'S2: @RESPOND ("$x")', run_id="r"))
        await began("never")
    async with open_host(folder) as host:
        await host.resume("r")
        outcome = await host.outcome("r")
        assert [call.key for call in outcome.in_doubt] == ["S1.0.1"]
        assert host.state("r").status == "in_doubt"
        await host.decide("r", ["S1"], Decision.SKIP)
        await host.resume("r")
        assert str((await host.outcome("r")).result.status) == "done"


async def test_waiting_run_frees_its_slot_and_continues_after_answer(folder):
    async with open_host(folder, capacity=Capacity(1)) as host:
        await host.start(
            request('S1: @NOTE (line="hi") > $x', 'S2: @RESPOND ("$x")', run_id="r", approve=("note",))
        )
        await stands(host, "r", "waiting")
        (ask,) = await host.asks("r")
        assert (ask.tool, ask.args) == ("NOTE", {"line": "hi"})
        other = (await host.start(request("S1: @ADD (a=1) > $x"))).run_id
        assert str((await host.outcome(other)).result.status) == "done"
        await host.answer("r", Answer.approve(by="ada"), digest=ask.digest)
        assert (await host.outcome("r")).result.response == "hi"
        assert notes() == ["hi"]


async def test_expired_approval_is_denied_without_watcher(folder):
    async with open_host(folder) as host:
        wanted = request(
            'S1: @NOTE (line="hi") > $x', run_id="r", approve=("note",), approval_timeout={"": 0.3}
        )
        await host.start(wanted)
        await stands(host, "r", "done")
        assert "nobody approved" in (await host.outcome("r")).result.response
        assert notes() == []


async def test_crash_counter_of_run_is_removed_with_run(folder):
    async with open_host(folder) as host:
        started = await host.start(request("S1: @ADD (a=1)", run_id="fatal"))
        await host.wait(started.run_id)
        place = place_of(host.journal.path)
        Attempts(place).begin("fatal")
        assert [path.name for path in place.run_locks.glob("fatal.*")] == ["fatal.attempts"]
        delete_run(host.journal, host.info("fatal"))
        assert not list(place.run_locks.glob("fatal.*"))


async def test_resuming_run_of_another_host_is_refused(folder):
    async with open_host(folder) as here, open_host(folder) as there:
        await here.start(request('S1: @HOLD (name="never") > $x', run_id="r"))
        await began("never")
        for host in (here, there):
            with pytest.raises(CallsheetError) as caught:
                await host.resume("r")
            assert codes(caught) == ["JRN004"]


async def test_run_without_its_tools_stays_unchanged_with_reason(folder):
    async with open_host(folder) as host:
        await host.start(request('S1: @HOLD (name="never") > $x', run_id="r"))
        await began("never")
    (folder / "tools.py").write_text(TOOLS.replace("def hold", "def held"))
    async with open_host(folder) as host:
        await host.resume("r")
        with pytest.raises(CallsheetError) as caught:
            await host.outcome("r")
        assert codes(caught) == ["TOL001"]
        assert host.state("r").status == "interrupted"
        assert host.problem("r") is not None


async def test_host_policy_applies_to_every_run(folder):
    strict = load_policy("strict")
    async with open_host(folder, policy=strict) as host:
        with pytest.raises(PolicyRefused):
            await host.start(request('S1: @NOTE (line="hi") > $x'))
        with pytest.raises(CallsheetError) as caught:
            await host.start(request("S1: @ADD (a=1) > $x", policy=load_policy("open")))
        assert codes(caught) == ["API020"]
        assert host.journal.runs() == []


async def test_branching_needs_confirmation(folder):
    async with open_host(folder) as host:
        await host.start(
            request("S1: @ADD (a=1) > $x", 'S2: @NOTE (line="n$x") > $y', 'S3: @RESPOND ("$y")', run_id="r")
        )
        await host.outcome("r")
        with pytest.raises(NeedsConsent) as refused:
            await host.rerun("r", RerunRequest(place="S2"))
        assert [effect.tool for effect in refused.value.forking.effects] == ["NOTE"]
        with pytest.raises(NeedsConsent):
            await host.rerun("r", RerunRequest(place="S2", effects="of other calls"))
        consent = refused.value.forking.consent
        again = await host.rerun("r", RerunRequest(place="S2", effects=consent, by="ada"))
        assert (await host.outcome(again.run_id)).result.response == "n2"
        steps = {"S3": 'S3: @RESPOND ("new $y")'}
        edits = Edits(variables={"x": 7}, steps=steps)
        at = next(e.seq for e in host.journal.events("r") if e.key == "S1.0.1" and e.type == "ok")
        forked = await host.fork("r", ForkRequest(at=at, edits=edits, effects=True))
        assert (await host.outcome(forked.run_id)).result.response == "new n7"


async def test_run_secrets_are_sealed_and_never_shown(folder):
    async with open_host(folder) as host:
        wanted = request(
            'S1: @RESPOND ("$key")', run_id="r", inputs={"key": "hunter2-x"}, secrets=frozenset({"key"})
        )
        await host.start(wanted)
        outcome = await host.outcome("r")
        assert "hunter2" not in repr(outcome)
        assert "hunter2" not in repr([*host.journal.events("r")])
        text = '# ltp: 2\nINPUT SECRET $key: str\nLET $size = len($key)\n@RESPOND ("${size} letters")\n'
        read = text_of(None, Source("plan", text))
        await host.start(RunRequest(text=read, run_id="r2", inputs={"key": "hunter2-x"}))
        told = (await host.outcome("r2")).result
        assert (told.response, told.variables["size"]) == ("9 letters", WITHHELD)


async def test_observer_receives_steps_and_respondent_answers(folder):
    heard, asked = [], []
    from callsheet.runtime.asking import Respondents

    def answer(ask):
        asked.append(ask.tool)
        return True

    async with open_host(folder) as host:
        listeners = Listeners(heard.append, Respondents(on_ask=answer))
        await host.start(
            request('S1: @NOTE (line="hi") > $x', run_id="r", approve=("note",), listeners=listeners)
        )
        assert str((await host.outcome("r")).result.status) == "done"
    assert asked == ["NOTE"]
    assert any(note.step == "S1" for note in heard)


async def test_request_limits_only_tighten(folder):
    own = Limits(max_calls=10, max_calls_by_tool={"add": 2})
    made = tightened(own, {"max_calls": 50, "max_steps": 5, "max_calls_by_tool": {"add": 9, "note": 1}})
    assert (made.max_calls, made.max_steps) == (10, 5)
    assert dict(made.max_calls_by_tool) == {"ADD": 2, "NOTE": 1}
    assert tightened(own, {"max_calls": None}).max_calls == 10
    async with open_host(folder) as host:
        for wrong in ({"max_calls": "many"}, {"no_such": 1}, {"max_calls": -1}):
            with pytest.raises(CallsheetError) as caught:
                await host.start(request("S1: @ADD (a=1) > $x", limits=wrong))
            assert codes(caught) == ["CFG011"]


async def test_run_started_by_command_line_resumes_with_its_own_tools(folder):
    other = folder / "other"
    other.mkdir()
    (other / "tools.py").write_text(TOOLS.replace("a + b", "a + b + 100"))
    text = request(
        "S1: @ADD (a=1) > $x", 'S2: @HOLD (name="go") > $y', "S3: @ADD (a=$x) > $z", 'S4: @RESPOND ("$z")'
    )
    with Journal.open(folder / "journal.db") as journal:
        async with Host(setup_of(other), journal) as host:
            run = (await host.start(text)).run_id
            await began("go")
    touch("go")
    async with open_host(folder) as host:
        await host.resume(run, ResumeOptions())
        assert (await host.outcome(run)).result.response == "203"


async def test_servers_are_opened_once_and_shared(folder):
    pids = folder / "pids"
    (folder / "server.py").write_text(
        f"import os\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n{SERVER}"
    )
    configured = {"mcpServers": {"hall": {"command": sys.executable, "args": [str(folder / "server.py")]}}}
    (folder / "mcp.json").write_text(json.dumps(configured))
    setup = replace(setup_of(folder), mcp_configs=(folder / "mcp.json",))
    with Journal.open(folder / "journal.db") as journal:
        async with Host(setup, journal) as host:
            runs = [
                (await host.start(request(f'S1: @GREET (name="n{n}") > $x', 'S2: @RESPOND ("$x")'))).run_id
                for n in range(3)
            ]
            assert [(await host.outcome(run)).result.response for run in runs] == [
                f"greet n{n}" for n in range(3)
            ]
            assert {"GREET", "ADD"} <= set((await host.tools.for_plan(None)).registry.names())
        (pid,) = pids.read_text().split()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_host_keeps_nothing_of_a_large_run_that_has_ended(folder):
    """Neither its plan nor its program; for a while nobody may collect what it has left."""

    def steps():
        return sum(type(each) is Step for each in gc.get_objects())

    async with open_host(folder) as host:
        gc.collect()
        before = steps()
        lines = [f"S{n}: @ADD (a={n}) > $m" for n in range(1, LARGE + 1)]
        started = await host.start(request(*lines, f'S{LARGE + 1}: @RESPOND ("$m")'))
        gc.unfreeze()
        assert steps() > before + LARGE
        outcome = await host.outcome(started.run_id)
        assert str(outcome.result.status) == "done"
        del started, outcome
        await until(lambda: steps() < before + 100)


@pytest.mark.parametrize("stage", ["running", "queued", "interrupted"])
async def test_paused_run_is_left_by_later_hosts_until_a_person_resumes_it(folder, stage):
    steps = ('S1: @HOLD (name="go") > $x', 'S2: @NOTE (line="$x") > $y')
    async with open_host(folder, capacity=Capacity(1), name="hall") as host:
        await host.start(request(*steps, run_id="a"))
        await began("go")
        await host.start(request(*steps, run_id="b"))
        run = "b" if stage == "queued" else "a"
        if stage != "interrupted":
            asking = asyncio.create_task(host.pause(run, "ada", "prices", 30.0))
            await asyncio.sleep(1.5)  # the driver looks every half second, later on a busy machine
            touch("go")
            pause = await asking
            await stands(host, run, "paused")
            assert (pause.by, pause.reason) == ("ada", "prices")
    if stage == "interrupted":
        async with open_host(folder, name="hall") as host:
            assert (await host.pause(run, "ada", "prices")).by == "ada"
    before = notes()
    async with open_host(folder, name="hall") as host:
        left = await host.revive()
        assert run not in (*left.interrupted, *left.waiting)
        host._queue.go_on(run)  # as a timer or an answer would
        await host.wait(run)
        assert (host.state(run).status, notes().count("go")) == ("paused", before.count("go"))
        touch("go")
        await host.resume(run, ResumeOptions(as_recorded=True, unpaused_by="bob"))
        assert str((await host.outcome(run)).result.status) == "done"


async def test_answer_to_a_paused_run_is_kept_until_it_goes_on(folder):
    async with open_host(folder) as host:
        await host.start(request('S1: @NOTE (line="hi") > $x', run_id="r", approve=("note",)))
        await stands(host, "r", "waiting")
        await host.pause("r", "ada")
        (ask,) = await host.asks("r")
        await host.answer("r", Answer.approve(by="bob"), digest=ask.digest)
        await host.wait("r")
        assert (host.state("r").status, notes()) == ("paused", [])
        await host.resume("r", ResumeOptions(unpaused_by=""))
        await host.outcome("r")
        assert notes() == ["hi"]
