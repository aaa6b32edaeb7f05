"""Runs that wait for people, for days without a process, and are answered once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.runtime.conftest import Clock
from tests.runtime.tools import FACTS, QUICK, Tools, plan_of, ports_for, route_to
from tests.waiting import until

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import (
    Answered,
    Ask,
    CallTool,
    Command,
    Decision,
    Event,
    Machine,
    Result,
    Status,
    Succeeded,
    Verdict,
    compile_plan,
)
from callsheet.ports.calls import CallContext
from callsheet.runtime.answers import Answer, PendingAsk, message_payload
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.inbox import answer_ahead, answer_run, asks_of, inbox
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.runs import Amendments, resume_run, run_unrecorded, start_run
from callsheet.runtime.simulated import Simulation
from callsheet.store import EventType, Journal, RunStatus, RunWriter
from callsheet.store.replay import fold

QUESTION = """
S1: @ASK_HUMAN ("Send to $who?", options=["yes", "no"]) > $a
S2: @WRITE ($a) > $w
S3: @RESPOND ($a, $w)
"""
CALL = "S1: @WRITE ($who) > $w\nS2: @RESPOND ($w)"
WAITS = Respondents(waits=True, poll=0.01)


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", monotonic=clock.now) as opened:
        yield opened


def how(approve: tuple[str, ...] = (), **inputs: JSON) -> Launch:
    return Launch(facts=FACTS, inputs=inputs, limits=QUICK, approve=approve)


async def start(
    journal: Journal,
    text: str,
    tools: Tools,
    launch: Launch | None = None,
    present: Respondents | None = None,
    watch: Watch | None = None,
) -> RunOutcome:
    ports = Ports(route_to(tools))
    launch = launch or how(who="Ada")
    return await start_run(
        plan_of(text), ports, launch, journal, "run", watch or Watch(), present or Respondents()
    )


async def resume(journal: Journal, tools: Tools, present: Respondents | None = None) -> RunOutcome:
    return await resume_run(journal, "run", ports_for(tools), present=present or Respondents())


def ended(outcome: RunOutcome) -> Result:
    assert outcome.result is not None
    return outcome.result


def never(args: dict[str, Any]) -> JSON:
    raise AssertionError("nobody has said yes to this call")


def count(journal: Journal, kind: EventType) -> int:
    return [event.type for event in journal.events("run")].count(kind)


# ---------------------------------------------------------------- waiting without a process


async def test_waiting_run_ends_its_process_and_continues_with_answer(journal: Journal) -> None:
    outcome = await start(journal, QUESTION, {"WRITE": "written"})
    (ask,) = outcome.waiting
    assert (outcome.result, ask.step, ask.prompt, ask.options) == (None, "S1", "Send to Ada?", ("yes", "no"))
    assert journal.find_run("run").status is RunStatus.WAITING
    answer_run(journal, "run", Answer.of("yes", by="Ada"))
    assert ended(await resume(journal, {"WRITE": "written"})).response == "yes written"
    assert journal.verify("run") is None


async def test_resuming_unanswered_run_starts_nothing_and_asks_nothing(
    journal: Journal,
) -> None:
    first = await start(journal, QUESTION, {})

    def refuse(start: object, plan: object) -> Any:
        raise AssertionError("nothing can go on: no server needs to be started")

    again = await resume_run(journal, "run", refuse)
    assert again.waiting == first.waiting
    assert count(journal, EventType.ASK) == 1


async def test_other_branches_finish_first(journal: Journal) -> None:
    text = (
        '@PARALLEL {\n S1: @ASK_HUMAN ("ok?") > $a\n'
        " S2: ?FOREACH ($x IN [1, 2, 3]) THEN @READ ($x) > $r\n S3: @WRITE (9) > $w\n}\nS4: @RESPOND ($r, $w)"
    )
    made: list[JSON] = []

    async def call(args: dict[str, Any], context: object) -> JSON:
        await asyncio.sleep(0.01)
        made.append(args["x"])
        return args["x"]

    outcome = await start(journal, text, {"READ": call, "WRITE": call})
    assert len(outcome.waiting) == 1
    assert sorted(map(str, made)) == ["1", "2", "3", "9"]
    answer_run(journal, "run", Answer.approve())
    assert ended(await resume(journal, {"READ": never, "WRITE": never})).response == "[1,2,3] 9"


async def test_tool_with_rule_is_called_after_approval_with_shown_arguments(journal: Journal) -> None:
    made: list[dict[str, Any]] = []
    outcome = await start(journal, CALL, {"WRITE": never}, how(("WRITE",), who={"name": "Ada"}))
    (ask,) = outcome.waiting
    answer_run(journal, "run", Answer.approve(by="Ada"), digest=ask.digest)

    def send(args: dict[str, Any]) -> None:
        made.append(args)

    await resume(journal, {"WRITE": send})
    assert made == [ask.args] == [{"x": {"name": "Ada"}}]


async def test_approval_rule_is_recorded_with_run(journal: Journal) -> None:
    """A resume keeps the rule of the start, also for later steps."""
    text = "S1: @WRITE (1) > $a\nS2: @WRITE (2) > $b\nS3: @RESPOND ($a, $b)"
    await start(journal, text, {}, how(("WRITE",)))
    answer_run(journal, "run", Answer.approve())
    outcome = await resume(journal, {"WRITE": lambda args: args["x"]})
    assert [ask.key for ask in outcome.waiting] == ["S2.0.1"]


async def test_denial_fails_call_without_making_it(journal: Journal) -> None:
    await start(journal, CALL, {"WRITE": never}, how(("WRITE",), who="Ada"))
    answer_run(journal, "run", Answer.deny(by="Bo", note="not now"))
    assert ended(await resume(journal, {"WRITE": never})).response == "denied by Bo: not now"


async def test_items_are_approved_separately(journal: Journal) -> None:
    text = "S1: ?FOREACH ($x IN [1, 2]) THEN @KEYED ($x) > $all\nS2: @RESPOND ($all)"
    tools: Tools = {"KEYED": lambda args: args["x"]}
    await start(journal, text, tools, how(("KEYED",)))
    answer_run(journal, "run", Answer.approve(), "S1.0.1")
    outcome = await resume(journal, tools)
    assert [ask.key for ask in outcome.waiting] == ["S1.1.1"]
    answer_run(journal, "run", Answer.deny(), "S1")
    assert ended(await resume(journal, tools)).variables["all"] == [1, "denied"]


async def test_retry_asks_again(journal: Journal) -> None:
    def fail(args: dict[str, Any]) -> JSON:
        raise OSError("busy")

    await start(journal, "S1: @KEYED (1) > $a ON_FAIL @RETRY(1)", {"KEYED": fail}, how(("KEYED",)))
    answer_run(journal, "run", Answer.approve())
    outcome = await resume(journal, {"KEYED": fail})
    assert [ask.key for ask in outcome.waiting] == ["S1.0.2"]


# ---------------------------------------------------------------- row 18: early, twice, late, after the end


async def test_early_answer_waits_in_inbox(journal: Journal) -> None:
    text = f'S0: @ASK_HUMAN ("first") > $f\n{QUESTION}'
    await start(journal, text, {"WRITE": "w"})
    answer_ahead(journal, "run", "S1.0.1", Answer.of("no"))
    answer_run(journal, "run", Answer.approve())
    assert ended(await resume(journal, {"WRITE": "w"})).response == "no w"


async def test_invalid_early_answer_and_early_approval_are_ignored(
    journal: Journal,
) -> None:
    await start(journal, f'S0: @ASK_HUMAN ("first")\n{QUESTION}', {"WRITE": never}, how(("WRITE",), who="A"))
    answer_ahead(journal, "run", "S1.0.1", Answer.of("maybe"))
    answer_ahead(journal, "run", "S2.0.1", Answer.approve())
    answer_run(journal, "run", Answer.approve())
    outcome = await resume(journal, {"WRITE": never})
    assert [ask.key for ask in outcome.waiting] == ["S1.0.1"]
    answer_run(journal, "run", Answer.of("yes"))
    outcome = await resume(journal, {"WRITE": never})
    assert [ask.key for ask in outcome.waiting] == ["S2.0.1"]


async def test_second_answer_is_refused_before_and_after_first_is_used(journal: Journal) -> None:
    await start(journal, QUESTION, {})
    answer_run(journal, "run", Answer.of("yes"))
    with pytest.raises(CallsheetError, match="answered already"):
        answer_run(journal, "run", Answer.of("no"))
    assert ended(await resume(journal, {"WRITE": "w"})).variables["a"] == "yes"
    with pytest.raises(CallsheetError, match=r"S1.0.1 was answered before \(answer\), and an answer counts"):
        answer_run(journal, "run", Answer.of("no"), "S1")


async def test_concurrent_answers_count_once(journal: Journal) -> None:
    """Both messages are stored: the first counts, the second is never used for another question."""
    text = "S1: @KEYED ($who) > $a\nS2: @KEYED ($who) > $b"
    (ask,) = (await start(journal, text, {}, how(("KEYED",), who="Ada"))).waiting
    for name in ("m1", "m2"):
        assert journal.mailbox.post("run", ask.key, name, message_payload(ask.digest, Answer.approve()))
    outcome = await resume(journal, {"KEYED": "k"})
    assert [waiting.key for waiting in outcome.waiting] == ["S2.0.1"]
    assert count(journal, EventType.SIGNAL) == 1


async def test_message_with_known_id_changes_nothing(journal: Journal) -> None:
    (ask,) = (await start(journal, QUESTION, {})).waiting
    answer_run(journal, "run", Answer.of("yes"), msg_id="mail-7")
    assert not journal.mailbox.post("run", ask.key, "mail-7", message_payload(ask.digest, Answer.of("no")))
    await resume(journal, {"WRITE": "w"})
    assert not journal.mailbox.post("run", ask.key, "mail-7", message_payload(ask.digest, Answer.of("no")))
    assert journal.mailbox.unread("run") == []


async def test_forged_invalid_message_is_skipped(journal: Journal) -> None:
    (ask,) = (await start(journal, QUESTION, {})).waiting
    for number, payload in enumerate(
        [
            message_payload(ask.digest, Answer.of("maybe")),
            message_payload("0" * 64, Answer.of("yes")),
            message_payload(ask.digest, Answer(Verdict.EXPIRE)),
            {"verdict": 7},
        ]
    ):
        journal.mailbox.post("run", ask.key, f"m{number}", payload)
    assert (await resume(journal, {})).waiting == (ask,)


Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """A function that advances the clock by some seconds of human time."""
    real, taken = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + sum(taken))
    return taken.append


async def test_question_expires_once_and_later_answers_are_refused(journal: Journal, later: Later) -> None:
    text = 'S1: @ASK_HUMAN ("ok?", timeout=600, default="none") > $a\nS2: @ASK_HUMAN ("more?") > $b'
    await start(journal, text, {})
    assert journal.find_run("run").wake_at is not None
    later(601)
    with pytest.raises(CallsheetError, match=r"the time to answer S1\.0\.1 of run run has run out"):
        answer_run(journal, "run", Answer.approve())
    for _ in range(2):
        outcome = await resume(journal, {})
        assert [ask.key for ask in outcome.waiting] == ["S2.0.1"]
    assert count(journal, EventType.SIGNAL) == 1
    with pytest.raises(CallsheetError, match=r"the time to answer S1\.0\.1 has run out"):
        answer_run(journal, "run", Answer.approve(), "S1")


async def test_timely_answer_counts_after_late_resume(journal: Journal, later: Later) -> None:
    await start(journal, 'S1: @ASK_HUMAN ("ok?", timeout=600) > $a\nS2: @RESPOND ($a)', {})
    answer_run(journal, "run", Answer.of("in time"))
    later(601)
    assert ended(await resume(journal, {})).response == "in time"


# ---------------------------------------------------------------- approvals that expire


def timed(seconds: float) -> Launch:
    return replace(how(("WRITE",), who="Ada"), approval_timeout={"": seconds})


async def test_call_not_approved_in_time_is_denied_on_resume(journal: Journal, later: Later) -> None:
    outcome = await start(journal, CALL, {"WRITE": never}, timed(600.0))
    (ask,) = outcome.waiting
    assert ask.until == pytest.approx(ask.since + 600.0)
    assert journal.find_run("run").wake_at == ask.until
    assert (await resume(journal, {"WRITE": never})).waiting == (ask,)  # it is not asked anew
    later(601)
    with pytest.raises(CallsheetError, match="has run out"):
        answer_run(journal, "run", Answer.approve())
    result = ended(await resume(journal, {"WRITE": never}))
    assert result.response == "denied: nobody approved the call of @WRITE within 10m"
    assert result.usage.calls == 0
    assert ended(await resume(journal, {"WRITE": never})) == result
    assert (count(journal, EventType.ASK), count(journal, EventType.SIGNAL)) == (1, 1)


async def test_call_is_denied_while_process_waits(journal: Journal) -> None:
    result = ended(await start(journal, CALL, {"WRITE": never}, timed(0.05), WAITS))
    assert result.response == "denied: nobody approved the call of @WRITE within 0.05s"


async def test_timely_approval_counts_after_late_resume(journal: Journal, later: Later) -> None:
    await start(journal, CALL, {"WRITE": never}, timed(600.0))
    answer_run(journal, "run", Answer.approve())
    later(601)
    assert ended(await resume(journal, {"WRITE": "written"})).response == "written"


@pytest.mark.parametrize("days", [1, -1])
async def test_clock_change_affects_no_approval_deadline(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, clock: Clock, days: int
) -> None:
    """The waiting process uses the monotonic clock; meanwhile the wall clock is set by a day."""
    real, shift = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + shift)
    running = asyncio.create_task(start(journal, CALL, {"WRITE": never}, timed(40), WAITS))
    await until(lambda: len(inbox(journal)) == 1)
    shift = days * 86_400.0
    await asyncio.sleep(0.2)
    assert not running.done()
    clock.go_on(50)
    async with asyncio.timeout(60):
        assert "nobody approved" in ended(await running).response


async def test_deadline_passes_by_clock_between_crash_and_resume(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    await start(journal, CALL, {"WRITE": never}, timed(86_400.0 * 3))
    monkeypatch.setattr(time, "time", lambda: real() + 86_400.0 * 2)
    assert len((await resume(journal, {"WRITE": never})).waiting) == 1
    monkeypatch.setattr(time, "time", lambda: real() + 86_400.0 * 3.01)
    assert "within 3d" in ended(await resume(journal, {"WRITE": never})).response


async def test_answer_after_cancellation_is_refused(journal: Journal) -> None:
    """A run is cancelled while it waits for people."""
    drivers: list[LocalDriver] = []
    running = asyncio.create_task(start(journal, QUESTION, {}, None, WAITS, Watch(on_driver=drivers.append)))
    await until(lambda: len(inbox(journal)) == 1)
    drivers[0].cancel("enough")
    assert ended(await running).status is Status.CANCELLED
    assert inbox(journal) == []
    with pytest.raises(CallsheetError, match="has no pending question: it is cancelled"):
        answer_run(journal, "run", Answer.of("yes"))
    with pytest.raises(CallsheetError, match="has ended"):
        answer_ahead(journal, "run", "S1.0.1", Answer.of("yes"))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "answer", "message"),
    [
        ('options=["a", 1]', Answer.of("b"), 'must be one of "a", 1, and not "b"'),
        ('options=["a", 1]', Answer.of(True), "one of"),
        ('options=["a"]', Answer.approve(), "a plain approval is not enough"),
        ('schema={"type": "integer", "minimum": 1}', Answer.of("x"), "the answer should be integer"),
        (
            'schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}',
            Answer.of({}),
            "the answer.n is missing",
        ),
    ],
)
async def test_invalid_answer_is_refused_with_accepted_form(
    journal: Journal, arguments: str, answer: Answer, message: str
) -> None:
    await start(journal, f'S1: @ASK_HUMAN ("?", {arguments})', {})
    with pytest.raises(CallsheetError) as refused:
        answer_run(journal, "run", answer)
    assert message in str(refused.value)
    assert journal.mailbox.unread("run") == []


async def test_calls_take_no_answers_and_other_digests_are_refused(journal: Journal) -> None:
    await start(journal, CALL, {}, how(("WRITE",), who="Ada"))
    with pytest.raises(CallsheetError, match="approved or denied"):
        answer_run(journal, "run", Answer.of("yes"))
    with pytest.raises(CallsheetError, match="has changed since it was shown"):
        answer_run(journal, "run", Answer.approve(), digest="0" * 64)


async def test_ambiguous_question_must_be_named(journal: Journal) -> None:
    await start(journal, 'S1: ?FOREACH ($x IN [1, 2]) THEN @ASK_HUMAN ("$x?") > $a', {})
    with pytest.raises(CallsheetError, match=r"more than one answer: S1.0.1, S1.1.1"):
        answer_run(journal, "run", Answer.approve())
    answer_run(journal, "run", Answer.approve(), "S1.1.1")
    assert [(ask.key, ask.is_answered) for ask in asks_of(journal, "run")] == [
        ("S1.0.1", False),
        ("S1.1.1", True),
    ]


# ---------------------------------------------------------------- while the process lives


async def test_waiting_process_takes_answer_of_another(journal: Journal) -> None:
    running = asyncio.create_task(start(journal, QUESTION, {"WRITE": "w"}, None, WAITS))
    await until(lambda: len(inbox(journal)) == 1)
    with Journal.open(journal.path) as other:
        answer_run(other, "run", Answer.of("yes"))
    assert ended(await running).response == "yes w"


async def test_question_expires_while_process_waits(journal: Journal) -> None:
    text = 'S1: @ASK_HUMAN ("ok?", timeout=0.05, default="none") > $a\nS2: @RESPOND ($a)'
    assert ended(await start(journal, text, {}, None, WAITS)).response == "none"


def time_is_stopped(drivers: list[LocalDriver]) -> bool:
    """Whether the time of the started run is currently not counted."""
    return bool(drivers) and len({drivers[0].seconds for _ in range(3)}) == 1


async def test_time_waiting_for_people_is_not_counted(journal: Journal, clock: Clock) -> None:
    """Not for its limit, its reported usage, or a resume from the journal."""
    drivers: list[LocalDriver] = []

    def slow(args: dict[str, Any]) -> JSON:
        clock.go_on(10)
        return "slow"

    text = 'S1: @ASK_HUMAN ("ok?") > $a\nS2: @READ (1) > $b\nS3: @ASK_HUMAN ("sure?") > $c\nS4: @RESPOND ($b)'
    launch = replace(how(), limits=replace(QUICK, max_seconds=40))
    watch = Watch(on_driver=drivers.append)
    running = asyncio.create_task(start(journal, text, {"READ": slow}, launch, WAITS, watch))
    for asked in (1, 2):
        await until(lambda asked=asked: journal.runs() != [] and count(journal, EventType.ASK) == asked)
        await until(lambda: time_is_stopped(drivers))
        clock.go_on(50)
        if asked == 2:
            folded = fold(plan_of(text), journal.events("run"), journal.plan_of)
            assert 10 <= folded.seconds < 40
        answer_run(journal, "run", Answer.approve())
    result = ended(await running)
    assert (result.status, result.response) == (Status.DONE, "slow")
    assert 10 <= result.usage.seconds < 40


async def test_time_limit_applies_after_waiting(journal: Journal, clock: Clock) -> None:
    text = 'S1: @ASK_HUMAN ("ok?", timeout=40, default="none") > $a\nS2: @READ (1) > $b'
    drivers: list[LocalDriver] = []
    under_way = asyncio.Event()

    async def hang(args: dict[str, Any], context: object) -> JSON:
        under_way.set()
        await asyncio.Event().wait()
        return "late"

    launch = replace(how(), limits=replace(QUICK, max_seconds=40))
    watch = Watch(on_driver=drivers.append)
    running = asyncio.create_task(start(journal, text, {"READ": hang}, launch, WAITS, watch))
    await until(lambda: time_is_stopped(drivers))
    clock.go_on(50)
    await until(under_way.is_set)
    clock.go_on(50)
    async with asyncio.timeout(60):
        result = ended(await running)
    assert result.refusal is not None
    assert (result.refusal.budget, result.variables) == ("max_seconds", {"a": "none"})


async def test_answer_is_noticed_during_other_calls(journal: Journal) -> None:
    answered_first: list[str] = []

    async def slow(args: dict[str, Any], context: object) -> JSON:
        await until(lambda: "WRITE" in answered_first)
        return "slow"

    text = "@PARALLEL {\n S1: @WRITE (1) > $w\n S2: @READ (2) > $r\n}\nS3: @RESPOND ($w, $r)"
    tools: Tools = {"WRITE": lambda args: answered_first.append("WRITE"), "READ": slow}  # type: ignore[func-returns-value]
    present = Respondents(poll=0.01)
    running = asyncio.create_task(start(journal, text, tools, how(("WRITE",)), present))
    await until(lambda: len(inbox(journal)) == 1)
    answer_run(journal, "run", Answer.approve())
    assert ended(await running).response == "slow"


@pytest.mark.parametrize("said", [True, Answer.approve(by="rule 7")])
async def test_program_may_answer_and_answer_is_journaled(journal: Journal, said: Any) -> None:
    seen: list[PendingAsk] = []

    async def answer(ask: PendingAsk) -> Any:
        seen.append(ask)
        assert ask.args is not None
        ask.args["x"] = "changed"  # type: ignore[index]
        return said

    tools: Tools = {"WRITE": lambda args: args["x"]}
    outcome = await start(journal, CALL, tools, how(("WRITE",), who="Ada"), Respondents(answer))
    assert ended(outcome).response == "Ada"
    assert [ask.tool for ask in seen] == ["WRITE"]
    assert count(journal, EventType.SIGNAL) == 1


async def test_program_that_declines_leaves_run_waiting(journal: Journal) -> None:
    outcome = await start(journal, QUESTION, {}, None, Respondents(lambda ask: None))
    assert [ask.key for ask in outcome.waiting] == ["S1.0.1"]


async def test_failing_responder_denies(journal: Journal) -> None:
    def broken(ask: PendingAsk) -> bool:
        raise ZeroDivisionError("oh")

    outcome = await start(journal, CALL, {"WRITE": never}, how(("WRITE",), who="A"), Respondents(broken))
    assert "ZeroDivisionError: oh" in ended(outcome).response


async def test_without_journal_only_program_can_be_asked() -> None:
    plan, ports = plan_of(CALL), Ports(route_to({"WRITE": lambda args: args["x"]}))
    launch = how(("WRITE",), who="Ada")
    denied = await run_unrecorded(plan, ports, launch)
    assert "nobody can be asked" in denied.response
    said = await run_unrecorded(plan, ports, launch, present=Respondents(lambda ask: True))
    assert said.response == "Ada"


# ---------------------------------------------------------------- in virtual time


def test_simulated_driver_skips_waiting_time() -> None:
    days = {"S1.0.1": 3.0, "S2.0.1": 1.5, "S2.1.1": 2.0}
    text = '@PARALLEL {\n S1: @WRITE (1) > $w\n S2: ?FOREACH ($x IN [1, 2]) THEN @ASK_HUMAN ("$x?") > $a\n}'

    def respond(command: Command) -> tuple[float, Event]:
        if isinstance(command, Ask):
            answer = Answered(command.key, command.asked.digest, Verdict.APPROVE)
            return days[command.key] * 86_400, answer
        assert isinstance(command, CallTool)
        return 1.0, Succeeded(command.key, "written")

    limits = replace(QUICK, max_seconds=None)
    machine = Machine(compile_plan(plan_of(text), FACTS), limits, None, ["WRITE"])
    simulation = Simulation(machine, respond)
    assert simulation.run().variables == {"w": "written", "a": [True, True]}
    assert simulation.now == 3 * 86_400 + 1


# ---------------------------------------------------------------- crashes


_WAITING_PROCESS = """
import asyncio, sys
from pathlib import Path
from tests.runtime.test_asking import CALL, WAITS, how, start
from callsheet.store import Journal
with Journal.open(Path(sys.argv[1])) as journal:
    asyncio.run(start(journal, CALL, {"WRITE": "first"}, how(("WRITE",), who="Ada"), WAITS))
"""


def waiting_process(journal: Journal) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WAITING_PROCESS, str(journal.path)]
    return forked.Popen(command, env={**os.environ, "PYTHONPATH": _path()})


async def test_process_killed_while_waiting_leaves_question_open(journal: Journal) -> None:
    process = waiting_process(journal)
    try:
        await until(lambda: len(inbox(journal)) == 1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (ask,) = inbox(journal)
    answer_run(journal, "run", Answer.approve(), digest=ask.digest)
    assert ended(await resume(journal, {"WRITE": "second"})).response == "second"
    assert journal.verify("run") is None


def _path() -> str:
    return os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])


async def test_answer_is_used_once_despite_crash(
    journal: Journal,
) -> None:
    """The yes and the intent of its call are one transition: the call is in doubt, its yes is used."""
    await start(journal, CALL, {}, how(("WRITE",), who="Ada"))
    answer_run(journal, "run", Answer.approve())
    under_way = asyncio.Event()

    async def hang(args: dict[str, Any], context: object) -> JSON:
        under_way.set()
        await asyncio.sleep(60)
        return None

    running = asyncio.create_task(resume(journal, {"WRITE": hang}))
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    outcome = await resume(journal, {"WRITE": never})
    assert [call.key for call in outcome.in_doubt] == ["S1.0.1"]
    assert outcome.waiting == ()
    again = await resume_run(journal, "run", ports_for({"WRITE": never}), Amendments(in_doubt=Decision.RETRY))
    assert [ask.key for ask in again.waiting] == ["S1.0.1"]
    answer_run(journal, "run", Answer.approve())
    assert ended(await resume(journal, {"WRITE": "sent"})).response == "sent"


class Crash(BaseException):
    """Simulates the end of the process within this process."""


SWEPT = """
S1: @ASK_HUMAN ("Which?", options=["a", "b"]) > $which
@PARALLEL {
  S2: ?FOREACH ($x IN [1, 2]) THEN @KEYED ("$which$x") > $made
  S3: @READ ($which) > $read
}
S4: @RESPOND ($which, $made, $read)
"""


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", range(1, 12))
async def test_crash_at_any_write_loses_no_answer_and_uses_none_twice(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, at: int, is_written: bool
) -> None:
    commit, commits = RunWriter.commit, 0
    delivered: list[tuple[str, JSON]] = []

    def crashing(self: RunWriter) -> None:
        nonlocal commits
        commits += 1
        if is_written or commits != at:
            commit(self)
        if commits == at:
            raise Crash

    async def deliver(args: dict[str, Any], context: CallContext) -> JSON:
        signals = [e for e in journal.events("run") if e.type is EventType.SIGNAL and e.key == context.key]
        assert [e.body and e.body["verdict"] for e in signals] == ["approve"]
        delivered.append((context.key, args["x"]))
        return args["x"]

    async def flush(self: RunWriter) -> None:
        crashing(self)

    monkeypatch.setattr(RunWriter, "commit", crashing)
    monkeypatch.setattr(RunWriter, "flush", flush)
    tools: Tools = {"KEYED": deliver, "READ": "read"}
    outcome: RunOutcome | None = None
    for _ in range(12):
        try:
            if journal.runs():
                for ask in asks_of(journal, "run"):
                    if not ask.is_answered:
                        answer_run(
                            journal, "run", Answer.of("b") if ask.options else Answer.approve(), ask.key
                        )
                outcome = await resume(journal, tools)
            else:
                outcome = await start(journal, SWEPT, tools, how(("KEYED",)))
        except Crash:
            continue
        if outcome.result is not None:
            break
    assert outcome is not None
    assert ended(outcome).response == 'b ["b1","b2"] read'
    assert dict(delivered) == {"S2.0.1": "b1", "S2.1.1": "b2"}
    assert [e.key for e in journal.events("run") if e.type is EventType.SIGNAL] == [
        "S1.0.1",
        "S2.0.1",
        "S2.1.1",
    ]
    assert journal.mailbox.unread("run") == []
    assert journal.verify("run") is None
