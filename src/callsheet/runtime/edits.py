"""The edits with which a run branches off, and the checks whether they are possible.

In: the parent run and the requested edits. Out: the event of the edit, and which edited values are secret; or
a JournalError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from callsheet.diagnostics import did_you_mean
from callsheet.ir import JSON
from callsheet.machine import Edited
from callsheet.machine.keys import parse_key
from callsheet.runtime.parent import ParentHistory
from callsheet.store import EventType, JournalError
from callsheet.store.branch import is_fed_to_machine, state_at
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.start import Start


@dataclass(frozen=True, slots=True)
class Edits:
    """What is edited when a run is forked, and by whom.

    `variables` by name; `arguments` by step and name; `steps`, each a line of plan (in a graph a JSON
    object), by id.
    """

    variables: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    arguments: Mapping[tuple[str, str], JSON] = field(default_factory=dict["tuple[str, str]", JSON])
    steps: Mapping[str, str] = field(default_factory=dict[str, str])
    by: str = ""

    @property
    def changes_plan(self) -> bool:
        """Whether the new run has another plan."""
        return bool(self.arguments or self.steps)

    def to_json(self) -> list[dict[str, JSON]]:
        """The edits for the new run's start event; values of variables are in its `edit` event instead."""
        rows: list[dict[str, JSON]] = [{"set": name} for name in self.variables]
        rows += [{"args": f"{step}.{name}", "value": v} for (step, name), v in self.arguments.items()]
        return rows + [{"replace": step, "line": line} for step, line in self.steps.items()]


def edit_of(before: Folded, last: Event, edits: Edits) -> Edited | None:
    """The event of an edit of variables, None if none are edited; raises JournalError (JRN082, JRN084)."""
    if not edits.variables and not edits.changes_plan:
        return None
    machine = before.machine
    if machine.result is not None and (before.ended or not is_fed_to_machine(last.type)):
        raise JournalError(
            "JRN082",
            f"the run ended at event {last.seq}: no later step can be edited",
            hint="name an earlier event: `callsheet show RUN --events` lists them",
        )
    known = {*machine.program.names, *machine.variables()}
    for name in edits.variables:
        if name not in known:
            suggestions = did_you_mean(name, known)
            hint = f"did you mean {' or '.join('$' + n for n in suggestions)}?" if suggestions else None
            raise JournalError("JRN084", f"the run has no variable ${name[:80]}", hint)
    if not edits.variables:
        return None
    return Edited(dict(edits.variables), edits.by, holds=is_fed_to_machine(last.type))


def secret_in(before: Folded, start: Start, edits: Edits) -> frozenset[str]:
    """The edited variables that replace secret values."""
    monitor = before.machine.monitor
    labels = {} if monitor is None else monitor.variables()
    return frozenset(
        name
        for name in edits.variables
        if name in start.secret or (name in labels and labels[name][0].is_secret)
    )


def sealed_before(history: ParentHistory, at: int, edits: Edits) -> frozenset[str]:
    """The edited variables that contained sealed data, either at the edit or at the parent's end."""
    if not edits.variables or not history.has_sealed():
        return frozenset()
    names = set[str]()
    for seq in {at, history.parent.events}:
        opened, closed = (
            state_at(history.plan, rows, seq, history.plan_of)[0].machine.variables()
            for rows in (history.events(), history.closed())
        )
        names |= {name for name in edits.variables if opened.get(name) != closed.get(name)}
    return frozenset(names)


def check_plain(history: ParentHistory, edits: Edits) -> None:
    """Refuse an edit of the plan that contains a secret, since plans are stored unsealed (SEC009)."""
    texts: list[JSON] = [{name: value} for (_, name), value in edits.arguments.items()]
    texts += edits.steps.values()
    steps = chain((step for step, _ in edits.arguments), edits.steps)
    for step, value in zip(steps, texts, strict=True):
        if history.finds_in(value):
            raise JournalError(
                "SEC009",
                f"step {step} of the new plan would contain a secret, and plans are stored unencrypted",
                hint="let the step read a variable, and set that: --set NAME=VALUE",
            )


def changed_steps(edits: Edits) -> set[str]:
    """The steps that are edited, wholly or in an argument."""
    return {*edits.steps, *(step for step, _ in edits.arguments)}


def check_not_begun(history: ParentHistory, edits: Edits, at: int) -> None:
    """Refuse to edit a step whose calls had left; raises JournalError (JRN082)."""
    changed = changed_steps(edits)
    for event in history.events(at):
        if event.type is EventType.PLAN:
            raise JournalError(
                "JRN082",
                f"at event {event.seq} the run followed a new plan of RE-PLAN, which cannot be edited",
                hint=f"fork before it, or edit only variables: --at {event.seq - 1}",
            )
        if event.key is not None and parse_key(event.key).step in changed:
            step = parse_key(event.key).step
            raise JournalError(
                "JRN082",
                f"step {step} had started at event {event.seq}, so it cannot be edited any more",
                hint=f"fork before it: --at {max(1, event.seq - 1)}",
            )


def check_same_past(before: Folded, now: Folded, edits: Edits) -> None:
    """Refuse a plan edit that would have changed the run's past; raises JournalError (JRN082)."""
    changed = changed_steps(edits)

    def left(folded: Folded) -> dict[str, object]:
        others = ((key, c) for key, c in folded.waiting.items() if parse_key(key).step not in changed)
        return {key: command for key, command in others if key in folded.launched}

    is_same = before.machine.variables() == now.machine.variables() and left(before) == left(now)
    if not is_same:
        raise JournalError(
            "JRN082",
            f"with {', '.join(sorted(changed))} edited, the run would have taken another path before that "
            "event",
            hint="fork at an earlier event: `callsheet show RUN --events` lists them",
        )
