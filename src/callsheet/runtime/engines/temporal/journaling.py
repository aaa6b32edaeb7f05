"""What happened in a run on Temporal, written into a journal; and how the run stands by that journal.

In: what a history tells. Out: the same events, with the same bodies and their own times, that a local
run writes. What the journal has already is not written again, so it can be brought up to date at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callsheet.machine import Ask, CallTool, PlanCompiled, Probe, Result, Sleep
from callsheet.machine.asking import asked_to_json
from callsheet.machine.commands import AgentTurn, CallModel, Compile, RunAgent
from callsheet.machine.keys import place_of_key
from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run, unanswered_calls
from callsheet.runtime.engines.temporal.happenings import Happening
from callsheet.runtime.engines.temporal.orders import Order
from callsheet.runtime.inbox import asks_of
from callsheet.runtime.recording import text_of
from callsheet.store import EventType, Journal, RunStatus, RunWriter
from callsheet.store.errors import JournalError
from callsheet.store.records import event_record, result_body


def note_order(journal: Journal, order: Order, at: float | None = None) -> None:
    """Put a run into the journal with its start alone, unless it is there; raises what `create_run` does."""
    if _has(journal, order.run_id):
        return
    with journal.create_run(
        order.run_id, order.plan, order.source, order.start.to_json(), core_version=order.core, at=at
    ) as writer:
        writer.commit()


def note_happenings(journal: Journal, order: Order, happened: Sequence[Happening]) -> None:
    """Write down what the journal does not have yet of what has happened in a run.

    Raises JournalError: JRN004 while another process does the same, and what else writing raises.
    """
    known = journal.find_run(order.run_id).events - 1
    if len(happened) <= known:
        return
    with journal.claim(order.run_id) as writer:
        for happening in happened[writer.last_seq - 1 :]:
            writer.date(happening.at)
            _write(writer, happening)
        writer.commit()
    if not journal.find_run(order.run_id).status.is_final:
        _set_status(journal, order.run_id)


def _write(writer: RunWriter, happening: Happening) -> None:
    what = happening.what
    match what:
        case Result():
            writer.append(EventType.END, body=result_body(what))
            writer.set_status(RunStatus(what.status))
        case CallTool(key=key, tool=tool):
            writer.intend(key, tool)
        case CallModel(key=key) | RunAgent(key=key) | AgentTurn(key=key) | Compile(key=key):
            writer.intend(key, None)
        case Sleep(key=key):
            _append(writer, EventType.TIMER, key, {"due": happening.due})
        case Ask(key=key, asked=asked):
            _append(writer, EventType.ASK, key, {**asked_to_json(asked), "due": happening.due})
        case Probe():
            raise ValueError("a probe only looks: no journal has an event for it")
        case _:
            if isinstance(what, PlanCompiled):
                writer.add_plan(what.plan, text_of(what.plan))
            kind, key, body = event_record(what)
            if key is None:
                writer.append(kind, body=body)
            else:
                _append(writer, kind, key, body)


def _append(writer: RunWriter, kind: EventType, key: str, body: dict[str, Any] | None) -> None:
    step, index, attempt = place_of_key(key)
    writer.append(kind, key=key, step=step, index=index, attempt=attempt, body=body)


def stands(journal: Journal, run_id: str) -> RunOutcome:
    """How a run stands by what the journal has of it; raises JournalError where it cannot be read."""
    folded = fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0])
    result, usage, doubtful = folded.machine.result, folded.usage(), doubtful_calls(folded)
    if result is not None:
        return RunOutcome(run_id, result, doubtful, usage=usage)
    return RunOutcome(
        run_id, None, doubtful, tuple(asks_of(journal, run_id)), unanswered_calls(folded), usage
    )


def _set_status(journal: Journal, run_id: str) -> None:
    """Let lists of runs say what a run waits for."""
    stand = stands(journal, run_id)
    status = RunStatus.RUNNING
    if stand.in_doubt:
        status = RunStatus.IN_DOUBT
    elif stand.waiting:
        status = RunStatus.WAITING
    if journal.find_run(run_id).status is not status:
        with journal.claim(run_id) as writer:
            writer.set_status(status)
            writer.commit()


def _has(journal: Journal, run_id: str) -> bool:
    try:
        return journal.find_run(run_id).run_id == run_id
    except JournalError:
        return False
