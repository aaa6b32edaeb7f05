"""Compares two documents, for example of two runs of one chain, by steps and facts.

Steps are aligned by agent and action, so that an additional step does not change all later ones. Times,
the chain's id and shifted step numbers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from callsheet.diagnostics.wrong_type import wanted
from callsheet.trace.lctl.model import Body, Entry, Fact

_MOST_PAIRS = 1_000_000
"""The number of pairs of steps up to which the optimal alignment is computed, rather than a faster one."""


class Changed(NamedTuple):
    """A value that differs."""

    old: object
    new: object


class StepChange(NamedTuple):
    """The differences in a step that both documents have; `step` is its number in the first."""

    step: int | None
    agent: str | None
    fields: Mapping[str, Changed]


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences from one document to another."""

    steps_added: tuple[Entry, ...]
    steps_removed: tuple[Entry, ...]
    steps_changed: tuple[StepChange, ...]
    facts_added: tuple[str, ...]
    facts_removed: tuple[str, ...]
    facts_changed: Mapping[str, Mapping[str, Changed]]
    rest_changed: Mapping[str, Changed]
    """Changes of the instruction, the receiver and the lists of the hand-off."""
    first_divergence_step: int | None
    """The first step at which the traces differ; None if they are equal."""

    @property
    def is_equal(self) -> bool:
        """Whether there are no differences."""
        return not (
            self.steps_added
            or self.steps_removed
            or self.steps_changed
            or self.facts_added
            or self.facts_removed
            or self.facts_changed
            or self.rest_changed
        )


def diff(old: Body, new: Body) -> Diff:
    """The differences from one document to another.

    >>> from callsheet.trace.lctl.model import Chain, Handoff
    >>> a = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.9),))
    >>> b = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.8),))
    >>> diff(a, b).first_divergence_step, diff(a, a).is_equal
    (1, True)
    """
    wanted("old", old, Body, "a hand-off or a debug document")
    wanted("new", new, Body, "a hand-off or a debug document")
    added: list[Entry] = []
    removed: list[Entry] = []
    changed: list[StepChange] = []
    diverged: list[int] = []
    steps: dict[int | None, int | None] = {}
    for one, other in _aligned(old.entries, new.entries):
        if one is None or other is None:
            entry = one or other
            (added if one is None else removed).extend([entry] if entry is not None else [])
            fields: dict[str, Changed] = {}
        else:
            entry, fields = one, _entry_changes(one, other)
            steps.setdefault(one.step, other.step)
        if fields:
            changed.append(StepChange(entry.step if entry else None, entry.agent if entry else None, fields))
        if (fields or one is None or other is None) and entry is not None and entry.step is not None:
            diverged.append(entry.step)
    return Diff(
        tuple(added),
        tuple(removed),
        tuple(changed),
        tuple(fact for fact in new.facts if fact not in old.facts),
        tuple(fact for fact in old.facts if fact not in new.facts),
        {
            fact: fields
            for fact in old.facts
            if fact in new.facts and (fields := _fact_changes(old.facts[fact], new.facts[fact], steps))
        },
        _rest_changes(old, new),
        diverged[0] if diverged else None,
    )


def _entry_changes(old: Entry, new: Entry) -> dict[str, Changed]:
    pairs = (
        ("agent", old.agent, new.agent),
        ("action", old.action, new.action),
        ("confidence", old.confidence, new.confidence),
        ("facts_added", old.facts_added, new.facts_added),
        ("facts_modified", old.facts_modified, new.facts_modified),
        ("parallel", old.parallel, new.parallel),
        ("error", old.error, new.error),
        ("facts_at_failure", old.facts_at_failure, new.facts_at_failure),
    )
    return {name: Changed(one, other) for name, one, other in pairs if one != other}


def _fact_changes(old: Fact, new: Fact, steps: Mapping[int | None, int | None]) -> dict[str, Changed]:
    pairs = (
        ("text", old.text, new.text),
        ("confidence", old.confidence, new.confidence),
        ("source", old.source, new.source),
        ("step", steps.get(old.step, old.step), new.step),
        ("note", old.note, new.note),
        ("derived_from", old.derived_from, new.derived_from),
    )
    changes = {name: Changed(one, other) for name, one, other in pairs if one != other}
    if "step" in changes:
        changes["step"] = Changed(old.step, new.step)
    return changes


def _rest_changes(old: Body, new: Body) -> dict[str, Changed]:
    warnings = [body.lists.warnings if body.lists is not None else () for body in (old, new)]
    common = frozenset(old.facts) & frozenset(new.facts)
    lists = [
        (
            frozenset(fact for fact in body.critical if fact in common),
            frozenset(fact for fact in body.handed_on if fact in common),
        )
        for body in (old, new)
    ]
    pairs = (
        ("target", old.chain.target, new.chain.target),
        ("status", old.chain.status, new.chain.status),
        ("instruction", old.instruction, new.instruction),
        ("critical_facts", tuple(sorted(lists[0][0])), tuple(sorted(lists[1][0]))),
        ("handed_on", tuple(sorted(lists[0][1])), tuple(sorted(lists[1][1]))),
        ("warnings", warnings[0], warnings[1]),
    )
    return {name: Changed(one, other) for name, one, other in pairs if one != other}


# ---------------------------------------------------------------- alignment


def _aligned(old: tuple[Entry, ...], new: tuple[Entry, ...]) -> Iterator[tuple[Entry | None, Entry | None]]:
    """The steps of both in order, with matching ones as pairs."""
    start = 0
    while start < min(len(old), len(new)) and _similarity(old[start], new[start]) == _SAME:
        yield old[start], new[start]
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and _similarity(old[-1 - end], new[-1 - end]) == _SAME:
        end += 1
    yield from _middle(old[start : len(old) - end], new[start : len(new) - end])
    if end:
        yield from zip(old[-end:], new[-end:], strict=True)


_SAME, _ALIKE = 3, 1


def _similarity(one: Entry, other: Entry) -> int:
    """The score of a match of two steps: for agent and action, for the agent only, or none."""
    if one.agent != other.agent:
        return 0
    return _SAME if one.action == other.action else _ALIKE


def _middle(old: tuple[Entry, ...], new: tuple[Entry, ...]) -> Iterator[tuple[Entry | None, Entry | None]]:
    if len(old) * len(new) > _MOST_PAIRS:
        yield from _quickly(old, new)
        return
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            like = _similarity(old[i], new[j])
            paired = best[i + 1][j + 1] + like if like else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new):
            like = _similarity(old[i], new[j])
            if like and best[i][j] == best[i + 1][j + 1] + like:
                yield old[i], new[j]
                i, j = i + 1, j + 1
                continue
        if j == len(new) or (i < len(old) and best[i + 1][j] >= best[i][j + 1]):
            yield old[i], None
            i += 1
        else:
            yield None, new[j]
            j += 1


def _quickly(old: tuple[Entry, ...], new: tuple[Entry, ...]) -> Iterator[tuple[Entry | None, Entry | None]]:
    keys = [[(entry.agent, entry.action) for entry in entries] for entries in (old, new)]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, *keys, autojunk=True).get_opcodes():
        if tag == "equal":
            yield from zip(old[i1:i2], new[j1:j2], strict=True)
        else:
            yield from ((entry, None) for entry in old[i1:i2])
            yield from ((None, entry) for entry in new[j1:j2])
