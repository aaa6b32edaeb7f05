"""The observers of a run: its event stream and its step log, kept informed together."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.api.steps import StepLog
from callsheet.api.stream import EventStream
from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile
from callsheet.machine.progress import with_own_ids
from callsheet.runtime.launch import Watch
from callsheet.sealing.masking import MaskedFields
from callsheet.store import EventType, Journal


@dataclass(slots=True)
class Observers:
    """The observers of a run: its event stream and its step log, either of which may be absent.

    `diagnostics` are the warnings and hints about its plan, once it was checked.
    """

    stream: EventStream | None = None
    log: StepLog | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def watching(self, watch: Watch) -> Watch:
        """The watch, with the step log added as an observer; the stream already is one."""
        return watch if self.log is None else self.log.watching(watch)

    def mask(self, hides: MaskedFields) -> None:
        """Mask these secrets in the `repr` of events and step results."""
        if self.stream is not None:
            self.stream.hides = hides
        if self.log is not None:
            self.log.hides = hides

    def begin_from(self, plan: Steps, new_plans: list[tuple[str, Steps]]) -> None:
        """Set the plans of a resumed run."""
        if self.stream is not None:
            self.stream.begin_from(plan, new_plans)
        if self.log is not None:
            self.log.begin_from(plan, new_plans)

    def compiled(self, command: Compile, plan: Steps) -> None:
        """Add the plan that a re-plan made."""
        if command.progress is not None:
            plan = with_own_ids(plan, command.progress.plan, command.progress.number)
        if self.stream is not None:
            self.stream.compiled(command.key, plan)
        if self.log is not None:
            self.log.compiled(plan)


def plans_of(journal: Journal, run_id: str) -> tuple[Steps, list[tuple[str, Steps]]]:
    """The plan of a run, and the later plans of its re-plans with the keys of their calls."""
    info = journal.find_run(run_id)
    if info.run_id != run_id:
        return Steps(()), []  # no run has exactly this id; resuming it reports that
    first = journal.plan_of(info.plan_hash)
    replans = [
        (row.key, journal.plan((row.body or {})["plan"])[0])
        for row in journal.events(run_id)
        if row.type is EventType.PLAN and row.key is not None
    ]
    return first, replans
