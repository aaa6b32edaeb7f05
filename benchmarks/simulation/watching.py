"""Follows what the writers of a run append, and what they are told is durable."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from benchmarks.simulation.course import RUN, Course

from callsheet.ir import Plan
from callsheet.runtime import recording
from callsheet.store import RunWriter, ledger, reader, replay


@contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Generator[None]:
    """While inside, attributes have other values."""
    before = [(place, name, place.__dict__[name]) for place, name, _ in changes]
    for place, name, value in changes:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in reversed(before):
            setattr(place, name, value)


@contextmanager
def watching(course: Course) -> Generator[None]:
    """While inside, `course` knows what is durable and who owns the run."""
    kernel, recorded = course.kernel, course.world.recorded
    append, intend, commit, flush = RunWriter.append, RunWriter.intend, RunWriter.commit, RunWriter.flush
    claim, take = ledger.Ledger.claim, RunWriter.take_message

    def appended(self: RunWriter, type: Any, **options: Any) -> int:  # noqa: A002 - as in RunWriter
        seq = append(self, type, **options)
        if self.run_id == RUN:
            body: Any = options.get("body")
            is_lost = body is not None and bool(body.get("unsettled"))
            event = str(type), options.get("key"), self.last_ts, self.epoch
            recorded.append(self, seq, event, is_lost=is_lost)
        return seq

    def intended(self: RunWriter, key: str, tool: str | None) -> int:
        seq = intend(self, key, tool)
        if self.run_id == RUN:
            recorded.append(self, seq, ("intent", key, self.last_ts, self.epoch))
        return seq

    def took(self: RunWriter, msg_id: str) -> None:
        take(self, msg_id)
        recorded.takes.append((self, self.last_seq, msg_id))

    def told(self: RunWriter) -> None:
        process = kernel.current
        if self.run_id == RUN and (process is None or not process.is_dead):
            made = recorded.commit(self, self.durable_seq)
            if process is not None and process.is_stale and made > process.fenced_at:
                course.world.wrong(f"{process.name} has written event {made} after the run was taken from it")

    def committed(self: RunWriter) -> bool:
        done = commit(self)
        told(self)
        return done

    async def flushed(self: RunWriter) -> None:
        await flush(self)
        told(self)

    def claimed(self: ledger.Ledger, run_id: str, *given: Any) -> Any:
        pending, process = claim(self, run_id, *given), kernel.current
        if pending is not None and process is not None and run_id == RUN:
            process.epoch, process.is_stale = pending.epoch, False
            for other in kernel.processes:
                if other is not process and not other.is_stale:
                    other.is_stale, other.fenced_at = True, pending.last_seq
        return pending

    with replaced(
        (RunWriter, "append", appended),
        (RunWriter, "intend", intended),
        (RunWriter, "take_message", took),
        (RunWriter, "commit", committed),
        (RunWriter, "flush", flushed),
        (ledger.Ledger, "claim", claimed),
        (ledger, "ENOUGH", course.settings.enough),
        (recording, "INTERVALS", course.settings.intervals),
    ):
        yield


class Memory:
    """Reading and compiling a plan, which are pure functions of it, done once for all processes of a case."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._programs: dict[tuple[object, ...], tuple[Plan, Any]] = {}

    @contextmanager
    def used(self) -> Generator[None]:
        """While inside, what was read or compiled before is taken from here."""
        read, compile_anew = reader.plan_from_json, replay.compile_plan

        def plan_from_json(data: Any) -> Plan:
            key = repr(data)
            if key not in self._plans:
                self._plans[key] = read(data)
            return self._plans[key]

        def compile_plan(plan: Plan, facts: Any, ranks: Any = MappingProxyType({})) -> Any:
            key = id(plan), frozenset(facts.items()), frozenset(ranks.items())
            if key not in self._programs:
                self._programs[key] = plan, compile_anew(plan, facts, ranks)
            return self._programs[key][1]

        with replaced((reader, "plan_from_json", plan_from_json), (replay, "compile_plan", compile_plan)):
            yield
