"""The difference of two recorded runs: the visits of their steps that differ, side by side.

In: a journal and two runs. Out: a `RunDifference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from callsheet.ir import JSON
from callsheet.store import Journal
from callsheet.store.runs import RunInfo
from callsheet.trace.comparing import Compared, compare_runs, parts
from callsheet.trace.lineage.lineage import Lineage, Visit
from callsheet.trace.lineage.reads import Path
from callsheet.views.lineage import visit_line, words_of

_MOST_PARTS = 20


@dataclass(frozen=True, slots=True)
class ComparedVisit:
    """A visit of a step in one of two runs; `value` is what it set `variable` to, `error` its failure."""

    step: str
    visit: int
    event: int
    tool: str
    skipped: str
    variable: str | None
    value: JSON
    error: str | None


@dataclass(frozen=True, slots=True)
class VisitDifference:
    """A visit that differs; `a` or `b` is None if only the other run has it.

    `what` names the parts that differ, `follows` says that the difference follows from an earlier one.
    `parts` has the places of the value that differ, with both values.
    """

    what: tuple[str, ...]
    follows: bool
    a: ComparedVisit | None
    b: ComparedVisit | None
    parts: tuple[tuple[Path, JSON, JSON], ...]


@dataclass(frozen=True)
class RunDifference:
    """How two runs differ: in `inputs`, by name with both values, and in visits of steps.

    `alike` is the number of equal visits; `upto` are the events up to which the runs were compared, if the
    comparison stopped early.
    """

    a: RunInfo
    b: RunInfo
    compared: Compared = field(repr=False)

    @property
    def is_same_plan(self) -> bool:
        """Whether both runs have the same plan."""
        return self.a.plan_hash == self.b.plan_hash

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.compared.inputs or self.compared.differences)

    @property
    def inputs(self) -> Mapping[str, tuple[JSON, JSON]]:
        """The inputs that differ, by name."""
        return self.compared.inputs

    @property
    def alike(self) -> int:
        """The number of equal visits."""
        return self.compared.alike

    @property
    def upto(self) -> tuple[int, int] | None:
        """The last events that were compared, if there are more."""
        return self.compared.upto

    @cached_property
    def visits(self) -> tuple[VisitDifference, ...]:
        """The visits that differ; the first is where the runs diverge."""
        found: list[VisitDifference] = []
        for pair, old, new in self.compared.differences:
            a = None if pair.old is None else _compared_visit(old, pair.old)
            b = None if pair.new is None else _compared_visit(new, pair.new)
            differing: list[tuple[Path, JSON, JSON]] = []
            if a is not None and b is not None and a.variable is not None and a.variable == b.variable:
                for number, part in enumerate(parts(a.value, b.value)):
                    if number == _MOST_PARTS:
                        break
                    differing.append((tuple(part.path), part.old, part.new))
            found.append(VisitDifference(tuple(pair.what), pair.follows, a, b, tuple(differing)))
        return tuple(found)

    def __str__(self) -> str:
        if self.is_equal:
            return f"{self.a.run_id} and {self.b.run_id} are equal"
        lines = [f"${name}: {old!r} → {new!r}" for name, (old, new) in self.inputs.items()]
        for pair, old, new in self.compared.differences:
            if pair.old is not None:
                line = visit_line(old, pair.old, words_of(old))
            else:
                line = "" if pair.new is None else visit_line(new, pair.new, words_of(new))
            lines.append(f"{line}: {', '.join(pair.what)}")
        return "\n".join(lines)


def diff_runs(journal: Journal, a: str, b: str, most: int | None = None) -> RunDifference:
    """How two runs of a journal differ; the comparison stops once more than `most` differences are found.

    Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 for unreadable events.
    """
    one, other = journal.find_run(a), journal.find_run(b)
    return RunDifference(one, other, compare_runs(journal, one, other, most))


def _compared_visit(lineage: Lineage, visit: Visit) -> ComparedVisit:
    code, written = lineage.code(visit), lineage.write_of.get(visit.id)
    write = None if written is None else lineage.writes[written]
    error = next((each.error for each in lineage.failures if each.visit == visit.id), None)
    return ComparedVisit(
        lineage.place(visit),
        visit.visit,
        visit.seq,
        code.tool,
        visit.skipped or "",
        None if write is None else write.name,
        None if write is None else write.value,
        error,
    )


# ---------------------------------------------------------------- of a runtime
