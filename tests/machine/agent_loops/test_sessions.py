"""Sessions: the client's calls, as often and at any time; a refusal ends one call; the end waits for all."""

from __future__ import annotations

from callsheet.api.plan import Plan
from callsheet.ir import Effect
from callsheet.machine import (
    Event,
    Failed,
    Finish,
    Limits,
    Loop,
    Machine,
    Started,
    Status,
    Succeeded,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.notes import CallEnd, Note
from callsheet.store.start import facts_from_json, facts_to_json

PLAN = Plan.parse('S1: @AGENT_SOLVE (goal="the calls of a client")').ir
FACTS = {
    "READ": ToolFacts(Effect.READ, ("number",)),
    "AGENT_SOLVE": ToolFacts(Effect.LLM, loop=Loop(("READ",), is_most=True, is_session=True)),
}


def session(limits: Limits | None = None) -> tuple[Machine, list[CallEnd]]:
    """A session that has begun, and the calls that have ended in it."""
    ended: list[CallEnd] = []

    def note(note: Note) -> None:
        if note.ended is not None:
            ended.append(note.ended)

    machine = Machine(compile_plan(PLAN, facts_from_json(facts_to_json(FACTS))), limits, note)
    assert fed(machine, Started({})) == ["S1.0.1/t1"]
    return machine, ended


def fed(machine: Machine, event: Event) -> list[str]:
    """Feed an event; returns the keys of the calls and questions that follow."""
    return [command.key for command in machine.feed(event) if not isinstance(command, Finish)]


def asks(key: str, *tools: str) -> Succeeded:
    """The client makes a call of each of these tools, all with the same argument."""
    return Succeeded(key, {"calls": [{"tool": tool, "args": {"number": 1}} for tool in tools]})


def test_next_calls_can_be_made_while_others_are_open_and_be_the_same() -> None:
    machine, ended = session()
    assert fed(machine, asks("S1.0.1/t1", "read")) == ["S1.0.1/t1c1", "S1.0.1/t2"]
    assert fed(machine, asks("S1.0.1/t2", "read", "read")) == ["S1.0.1/t2c1", "S1.0.1/t2c2", "S1.0.1/t3"]
    machine.feed(Succeeded("S1.0.1/t2c1", "b"))
    machine.feed(Failed("S1.0.1/t1c1", "no"))
    assert ended == [CallEnd("S1.0.1/t2c1"), CallEnd("S1.0.1/t1c1", "no")]
    assert machine.state() is None  # its calls are not kept


def test_unknown_tool_and_used_up_limit_end_only_their_call() -> None:
    machine, ended = session(Limits(max_calls=2))
    assert fed(machine, asks("S1.0.1/t1", "write", "read", "read")) == ["S1.0.1/t1c2", "S1.0.1/t2"]
    assert [end.key for end in ended] == ["S1.0.1/t1c1", "S1.0.1/t1c3"]
    assert "no tool write" in ended[0].why
    assert "max_calls" in ended[1].why
    assert machine.result is None
    assert machine.awaits("S1.0.1/t2")


def test_end_waits_for_open_calls() -> None:
    machine, _ = session()
    assert fed(machine, asks("S1.0.1/t1", "read")) == ["S1.0.1/t1c1", "S1.0.1/t2"]
    assert machine.feed(Succeeded("S1.0.1/t2", {"finish": None})) == []
    assert machine.result is None
    (finish,) = machine.feed(Succeeded("S1.0.1/t1c1", "a"))
    assert isinstance(finish, Finish)
    assert machine.result is not None
    assert machine.result.status is Status.DONE
