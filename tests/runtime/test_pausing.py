"""A paused run: no call leaves any more, those under way are kept, and only a person lets it go on."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from callsheet import ChatModel, Journal, RunResult, RunStatus, Runtime, tool
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Limits
from callsheet.runtime.pausing import pause_now, pause_run
from callsheet.store.events import EventType


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread or connection does, which has no event."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.01)


ITEMS = 40
PLAN = f"""# ltp: 2
S1: ?FOREACH ($n IN range({ITEMS})) TOGETHER MAX 8 {{
  S2: @PUT (item=$n) > $r
  YIELD ($r)
}} > $rows
@RESPOND ($rows)
"""


class Shop:
    """A tool whose calls wait until they are let through, and that counts them."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.gate = asyncio.Event()
        self.is_busy = asyncio.Event()

    def tool(self, **declared: Any) -> Any:
        @tool(**declared)
        async def put(item: int) -> int:
            self.begun[item] += 1
            if len(self.begun) >= 4:
                self.is_busy.set()
            await self.gate.wait()
            return item * 2

        return put


@asynccontextmanager
async def under_way(
    runtime: Runtime, shop: Shop, plan: str = PLAN
) -> AsyncGenerator[asyncio.Task[RunResult]]:
    """A run of which at least four calls are under way."""
    task = asyncio.create_task(runtime.run(plan, run_id="r"))
    async with asyncio.timeout(60):
        await shop.is_busy.wait()
        yield task


def no_ports(*_: object) -> Any:
    raise AssertionError("the tools of a paused run are not even opened")


def types_of(path: Path) -> list[EventType]:
    with Journal.open(path) as journal:
        return [event.type for event in journal.events("r")]


async def paused_in_the_middle(path: Path, shop: Shop, put: Any, limits: Limits | None = None) -> RunResult:
    """The outcome of a run that was paused by another runtime while calls were under way."""
    owner, other = Runtime([put], journal=path, limits=limits), Runtime([put], journal=path)
    async with under_way(owner, shop) as task:
        asking = asyncio.create_task(other.pause("r", by="ada", reason="prices", patience=30))
        await asyncio.sleep(0.8)  # the owner looks every half second
        shop.gate.set()
        pause = await asking
        assert pause is not None
        assert (pause.by, pause.reason) == ("ada", "prices")
        return await task


@pytest.mark.parametrize("declared", [{}, {"max_concurrent": 4}])
async def test_no_further_call_leaves_and_those_under_way_are_kept(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    """Calls that wait for others of their tool do not leave, and are in no doubt."""
    shop = Shop()
    put = shop.tool(effect="unsafe", **declared)
    result = await paused_in_the_middle(tmp_path / "j.db", shop, put)
    assert result.status is RunStatus.PAUSED
    assert result.pause is not None
    assert result.in_doubt == ()
    begun = sum(shop.begun.values())
    assert begun <= 8
    done = await Runtime([put], journal=tmp_path / "j.db").resume("r", by="bob")
    assert done.variables["rows"] == [2 * n for n in range(ITEMS)]
    assert set(shop.begun.values()) == {1}
    with Journal.open(tmp_path / "j.db") as journal:
        (note,) = (event for event in journal.events("r") if event.type is EventType.UNPAUSE)
        assert note.body == {"by": "bob"}
        assert journal.verify("r") is None


async def test_handle_pauses_its_run(tmp_path: Path) -> None:
    shop = Shop()
    runtime = Runtime([shop.tool(effect="unsafe")], journal=tmp_path / "j.db")
    run = runtime.start(PLAN)
    pausing = asyncio.create_task(run.pause(by="ada", reason="prices", patience=60))  # before it has begun
    async with asyncio.timeout(60):
        assert await run.pause(by="ada", reason="prices", patience=0.1) is None or not shop.begun
        shop.gate.set()
        paused = await pausing
        result = await run.result()
    assert paused is not None
    assert (result.status, result.pause) == (RunStatus.PAUSED, paused)
    assert (paused.by, paused.reason) == ("ada", "prices")
    assert sum(shop.begun.values()) < ITEMS
    async with asyncio.timeout(60):
        done = await runtime.start_resume(run.run_id, by="bob").result()
    assert done.answer == [2 * n for n in range(ITEMS)]
    assert set(shop.begun.values()) == {1}
    with pytest.raises(CallsheetError, match="JRN032"):
        await run.pause()


async def test_run_without_a_journal_cannot_be_paused() -> None:
    run = Runtime(journal=None).start('S1: @RESPOND ("done")')
    with pytest.raises(ValueError, match="without a journal"):
        await run.pause()
    await run.result()


async def test_limit_of_calls_at_once_keeps_unsent_calls_out_of_doubt(tmp_path: Path) -> None:
    shop = Shop()
    put = shop.tool(effect="unsafe")
    limits = Limits(max_concurrency_by_tool={"PUT": 4})
    result = await paused_in_the_middle(tmp_path / "j.db", shop, put, limits)
    assert (result.status, result.in_doubt) == (RunStatus.PAUSED, ())
    assert sum(shop.begun.values()) == 4
    done = await Runtime([put], journal=tmp_path / "j.db").resume("r")
    assert done.ok
    assert set(shop.begun.values()) == {1}


async def test_nothing_takes_it_up_by_itself(tmp_path: Path) -> None:
    """Neither what resumes runs without a person nor a decision on its calls lets it go on."""
    from callsheet.api.run_service import ResumeTerms
    from callsheet.runtime.runs import resume_run

    shop = Shop()
    put = shop.tool(effect="unsafe")
    await paused_in_the_middle(tmp_path / "j.db", shop, put)
    begun, before = shop.begun.copy(), types_of(tmp_path / "j.db")
    assert ResumeTerms().unpaused_by is None

    with Journal.open(tmp_path / "j.db") as journal:
        outcome = await resume_run(journal, "r", no_ports)
    assert outcome.pause is not None
    assert (outcome.result, outcome.pause.by) == (None, "ada")
    assert (shop.begun, types_of(tmp_path / "j.db")) == (begun, before)


async def test_message_outlives_its_owner(tmp_path: Path) -> None:
    """An owner that dies before it looks leaves the request to whoever takes the run up."""
    shop = Shop()
    put = shop.tool(effect="pure")
    async with under_way(Runtime([put], journal=tmp_path / "j.db"), shop) as task:
        with Journal.open(tmp_path / "j.db") as journal:
            assert await pause_run(journal, "r", "ada", patience=0) is None
        task.cancel()
        await asyncio.wait({task})
    from callsheet.runtime.runs import resume_run

    with Journal.open(tmp_path / "j.db") as journal:
        assert journal.find_run("r").status is RunStatus.RUNNING
        outcome = await resume_run(journal, "r", no_ports)
        assert outcome.pause is not None
        assert journal.find_run("r").status is RunStatus.PAUSED
        assert journal.mailbox.unread("r") == []


async def test_person_who_resumes_overrules_an_unread_request(tmp_path: Path) -> None:
    shop = Shop()
    put = shop.tool(effect="pure")
    async with under_way(Runtime([put], journal=tmp_path / "j.db"), shop) as task:
        with Journal.open(tmp_path / "j.db") as journal:
            await pause_run(journal, "r", "ada", patience=0)
        task.cancel()
        await asyncio.wait({task})
    shop.gate.set()
    result = await Runtime([put], journal=tmp_path / "j.db").resume("r")
    assert result.ok
    with Journal.open(tmp_path / "j.db") as journal:
        assert journal.mailbox.unread("r") == []


WAITING = """# ltp: 2
WAIT ("1h")
@RESPOND ("waited")
"""


async def test_wait_ends_its_turn_at_once_and_goes_on_later(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "j.db")
    task = asyncio.create_task(runtime.run(WAITING, run_id="r"))
    with Journal.open(tmp_path / "j.db") as journal:
        async with asyncio.timeout(60):
            runs = journal.parts.reader.runs
            await until(lambda: runs.has("r") and journal.has_any("r", EventType.TIMER))
            assert await pause_run(journal, "r", "ada") is not None
            assert (await task).status is RunStatus.PAUSED
        assert not journal.has_any("r", EventType.FIRED)


LIMITED = """# ltp: 2
TRY WITHIN (3600) {
  TRY {
    S1: @PUT (item=1) > $a
    S2: @PUT (item=2) > $b
  } FINALLY {
    S3: @PUT (item=3) > $c
    S4: @PUT (item=4) > $d
  }
} ON_FAIL TIMEOUT {
  @RESPOND ("late")
}
@RESPOND ("in time")
"""


@pytest.mark.parametrize(("under_way", "sent"), [(1, [1, 3, 4]), (3, [1, 2, 3, 4])])
async def test_call_is_not_sent_after_its_time_but_for_those_of_finally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_way: int, sent: list[int]
) -> None:
    path, begun, is_there, may_end = tmp_path / "j.db", list[int](), asyncio.Event(), asyncio.Event()

    @tool(effect="unsafe")
    async def put(item: int) -> int:
        begun.append(item)
        if item == under_way:
            is_there.set()
            await may_end.wait()
        return item

    runtime = Runtime([put], journal=path)
    async with asyncio.timeout(60):
        task = asyncio.create_task(runtime.run(LIMITED, run_id="r"))
        await is_there.wait()
        asking = asyncio.create_task(Runtime([put], journal=path).pause("r", by="ada", patience=30))
        await asyncio.sleep(0.8)  # the owner looks every half second
        may_end.set()
        assert await asking is not None
        assert (await task).status is RunStatus.PAUSED
        later = SimpleNamespace(time=lambda: time.time() + 7200)
        monkeypatch.setattr("callsheet.runtime.driving.time", later)
        done = await Runtime([put], journal=path).resume("r", by="bob")
    assert done.response == "late"
    assert begun == sent
    with Journal.open(path) as journal:
        failed = [event.body for event in journal.events("r") if event.type is EventType.ERR]
        assert all(body and body["error"].startswith("it was not sent: ") for body in failed)
        assert len(failed) == 4 - len(sent)
        assert journal.verify("r") is None


ASKING = """# ltp: 2
S1: @ASK_HUMAN ("go on?") > $answer
@RESPOND ($answer)
"""


async def test_answers_are_kept_for_it(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "j.db")
    assert (await runtime.run(ASKING, run_id="r")).status is RunStatus.WAITING
    with Journal.open(tmp_path / "j.db") as journal:
        pause_now(journal, "r", "ada")
        assert [ask.run_id for ask in await runtime.inbox()] == ["r"]
    from callsheet import Answer

    await runtime.answer("r", answer=Answer.of("yes"))
    with Journal.open(tmp_path / "j.db") as journal:
        assert journal.find_run("r").status is RunStatus.PAUSED
    assert (await runtime.resume("r")).response == "yes"


ASKING_NEXT = """# ltp: 2
S1: @PUT (item=1) > $r
S2: @ASK_HUMAN ("go on?") > $answer
@RESPOND ($answer)
"""


async def test_question_that_was_still_to_be_asked_is_not_shown(tmp_path: Path) -> None:
    """It is in no inbox, so nobody could answer it."""
    shop = Shop()
    runtime = Runtime([shop.tool(effect="unsafe")], journal=tmp_path / "j.db")
    task = asyncio.create_task(runtime.run(ASKING_NEXT, run_id="r"))
    with Journal.open(tmp_path / "j.db") as journal:
        async with asyncio.timeout(60):
            await until(lambda: shop.begun)
            assert await pause_run(journal, "r", "ada", patience=0) is None
            await asyncio.sleep(0.8)  # the owner looks every half second
            shop.gate.set()
            paused = await task
        assert (paused.status, paused.waiting, await runtime.inbox()) == (RunStatus.PAUSED, (), [])
        assert journal.find_run("r").waits_for is None


async def test_request_that_comes_while_a_person_resumes_is_later(tmp_path: Path) -> None:
    """What is asked for after the run was taken up is not void."""
    from callsheet.runtime.gateway import Ports
    from callsheet.runtime.pausing import ask_to_pause
    from callsheet.runtime.runs import Amendments, resume_run
    from callsheet.store.journal_paths import is_owned, place_of

    @asynccontextmanager
    async def ports(*_: object) -> AsyncGenerator[Ports]:
        yield Ports(lambda _: None)

    runtime = Runtime(journal=tmp_path / "j.db")
    task = asyncio.create_task(runtime.run(WAITING, run_id="r"))
    with Journal.open(tmp_path / "j.db") as journal:

        async def offload(work: Callable[[], Any]) -> Any:
            if is_owned(place_of(journal.path), "r"):
                ask_to_pause(journal, "r", "cleo")
            return work()

        async with asyncio.timeout(60):
            await until(lambda: journal.parts.reader.runs.has("r") and journal.has_any("r", EventType.TIMER))
            assert await pause_run(journal, "r", "ada") is not None
            await task
            outcome = await resume_run(journal, "r", ports, Amendments(unpaused_by="bob"), offload=offload)
        assert outcome.pause is not None
        assert outcome.pause.by == "cleo"


async def test_paused_twice_is_as_paused_once(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "j.db")
    await runtime.run(ASKING, run_id="r")
    first = await runtime.pause("r", by="ada")
    assert await runtime.pause("r", by="bob") == first
    (listed,) = await runtime.runs(status="paused")
    assert listed.pause == first
    assert types_of(tmp_path / "j.db").count(EventType.PAUSE) == 1


async def test_run_that_has_ended_cannot_be_paused(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "j.db")
    await runtime.run('S1: @RESPOND ("done")', run_id="r")
    with pytest.raises(CallsheetError, match="there is nothing to pause"):
        await runtime.pause("r")


async def test_cancellation_ends_a_paused_run(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "j.db")
    await runtime.run(ASKING, run_id="r")
    await runtime.pause("r", by="ada")
    cancelled = await runtime.cancel("r")
    assert cancelled is not None
    assert cancelled.status is RunStatus.CANCELLED


def talking(asked: Counter[str]) -> ChatModel:
    """A model for agents of three turns each, that counts what it is asked."""

    def answer(messages: list[dict[str, str]]) -> str:
        text = "\n".join(message["content"] for message in messages)
        match = re.search(r"item <(\d+)>", text)
        assert match is not None
        turn = text.count("<noted>")
        asked[f"{match[1]}:{turn}"] += 1
        if turn >= 2:
            return json.dumps({"finish": "ok"})
        return json.dumps({"tool": "note", "args": {"turn": turn}})

    return ChatModel(answer)


AGENTS = """# ltp: 2
S1: ?FOREACH ($n IN range(6)) TOGETHER MAX 2 {
  S2: @AGENT_SOLVE (goal="item <$n>", tools=["note"], max_turns=5) > $r
  YIELD ($r)
} > $rows
@RESPOND ($rows)
"""


async def test_agents_go_on_after_their_last_finished_turn(tmp_path: Path) -> None:
    asked = Counter[str]()

    @tool(effect="pure")
    async def note(turn: int) -> str:
        await asyncio.sleep(0.15)
        return "<noted>"

    model = talking(asked)
    runtime = Runtime([note], model=model, journal=tmp_path / "j.db")
    task = asyncio.create_task(runtime.run(AGENTS, run_id="r"))
    async with asyncio.timeout(60):
        await until(lambda: asked)
        await Runtime([note], model=model, journal=tmp_path / "j.db").pause("r", by="ada", patience=30)
        assert (await task).status is RunStatus.PAUSED
    assert 0 < len(asked) < 18
    done = await runtime.resume("r")
    assert done.ok
    assert (len(asked), set(asked.values())) == (18, {1})
