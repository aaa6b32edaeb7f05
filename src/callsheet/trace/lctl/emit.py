"""Creates documents that satisfy the rules: the first of a chain, the next one, and the merge of branches.

In: what was received and what an agent has done. Out: a hand-off that keeps the trace, carries critical
facts, states no confidence above the effective one, and does not list facts below 0.40.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_number, wrong
from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.confidence import (
    Confidence,
    Effective,
    Hop,
    effective,
    is_blocked,
    known_before,
    lowest,
    wanted_hops,
)
from callsheet.trace.lctl.findings import Finding, LctlError
from callsheet.trace.lctl.model import Body, Chain, Entry, Fact, Handoff, Lists, shown_id
from callsheet.trace.lctl.reading import frozen
from callsheet.trace.lctl.rules.hops import conflicts, origins


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of an agent, and the agent that it hands on to.

    `facts` are new, `modified` are existing facts with a new statement. `critical` are the ids of facts
    that must be preserved; None means all new ones. `demoted` are critical facts that become context;
    `dropped` are context facts that are left out.
    """

    agent: str
    to: str
    instruction: str
    action: str | None = None
    confidence: float | None = None
    facts: Sequence[Fact] = ()
    modified: Sequence[Fact] = ()
    critical: Iterable[str] | None = None
    demoted: Iterable[str] = ()
    dropped: Iterable[str] = ()
    warnings: Sequence[str] = ()
    parallel: bool = False
    duration_ms: float | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for items that are no facts, and for fields of a wrong type in them."""
        for name, facts in (("facts", self.facts), ("modified", self.modified)):
            wanted(f"Work({name}=…)", facts, Iterable, "a list of Fact(…)")
            for fact in facts:
                wanted(f"each of Work({name}=…)", fact, Fact, "a Fact(…)")
                wanted("the id of a Fact", fact.id, str, "a text such as F1")
                if fact.confidence is not None:
                    wanted_number(f"the confidence of Fact {fact.id[:40]}", fact.confidence)
                if isinstance(fact.derived_from, str):
                    raise wrong(f"derived_from of Fact {fact.id[:40]}", fact.derived_from, "a list of ids")

    def entry(self, step: int) -> Entry:
        """The entry of the trace for this work."""
        return Entry(
            step,
            self.agent,
            self.action,
            self.confidence,
            tuple(fact.id for fact in self.facts),
            tuple(fact.id for fact in self.modified),
            self.parallel,
            self.duration_ms,
            self.error,
        )


class _Carried(NamedTuple):
    facts: dict[str, Fact]
    critical: list[str]
    context: list[str]
    written: frozenset[str] = frozenset()
    """Ids of facts that are not carried any more and that a trace or another fact names."""


def wanted_work(work: object) -> Work:
    """The work that is given, or TypeError."""
    return wanted("work", work, Work, "a Work(…)")


def begin(chain_id: str, work: Work, *, minimal: bool = False) -> Handoff:
    """The first document of a chain; `minimal` leaves out the trace and the lists.

    Raises `LctlError` for work that no document can express, such as a fact without a text.

    >>> facts = [Fact("F1", "Invoice 881 totals 120.50 EUR", 0.96)]
    >>> work = Work(agent="reader", to="checker", instruction="Check it", action="Read", facts=facts)
    >>> begin("inv-7", work).critical
    ('F1',)
    """
    wanted("chain_id", chain_id, str, "a text")
    entry = wanted_work(work).entry(1)
    carried = _with_work(_Carried({}, [], []), work, 1, ())
    chain = Chain(chain_id, 1, work.agent, work.to)
    trace = None if minimal else (entry,)
    return _checked(_document(chain, carried, trace, work, with_lists=not minimal), ())


def hand_on(hop: Hop, work: Work) -> Handoff:
    """The document after a received one; raises `LctlError` if it would break a rule."""
    document = hop.body
    wanted_work(work)
    step = _next_step([document])
    carried = _with_work(_carried_facts(hop.body, hop.effective), work, step, known_before([hop]))
    entries = (*document.entries, work.entry(step)) if document.has_trace else None
    chain = Chain(document.chain.id, _chain_step(step, [document]), work.agent, work.to)
    with_lists = not document.is_minimal
    return _checked(_document(chain, carried, entries, work, with_lists=with_lists), (hop,))


def merge(branches: Sequence[Hop], work: Work) -> Handoff:
    """The document that joins parallel branches.

    The traces of all are kept; of a fact in several branches the version with the lowest confidence is
    taken, regardless of the order of the branches. `work.action` may be omitted if the merge is no step
    of its own. Raises `LctlError` (M01) if branches use one id for different facts, which
    `rename_facts` can change.
    """
    wanted_work(work)
    bodies = [hop.body for hop in branches]
    conflicting = list(conflicts(bodies, origins(branches)))
    clashes = [conflict for conflict in conflicting if conflict.texts]
    if clashes:
        raise LctlError.of(
            Finding(
                "M01",
                0,
                f"branches give {shown_id(c.fact)} {len(c.texts)} different texts",
                ("facts", c.fact),
            )
            for c in clashes
        )
    parents = [
        f"Branches give {c.fact} {', '.join(f'{value:g}' for value in c.confidences)}; the lowest holds"
        for c in conflicting
    ]
    work = replace(work, warnings=(*parents, *work.warnings))
    entries = _merged_traces(bodies)
    step = _next_step(bodies)
    if work.action is not None:
        entries = (*entries, work.entry(step))
    carried = _with_work(merged(branches), work, step, known_before(branches))
    chain = Chain(
        bodies[0].chain.id, _chain_step(step, bodies), work.agent, work.to,
        parallel_merge=sum(entry.parallel for entry in entries) > 1,
    )  # fmt: skip
    told_all = entries if any(body.has_trace for body in bodies) else None
    with_lists = not all(body.is_minimal for body in bodies)
    return _checked(_document(chain, carried, told_all, work, with_lists=with_lists), tuple(branches))


def merged(branches: Sequence[Hop]) -> _Carried:
    """The facts of all branches; the order of the branches affects only the order of the facts."""
    before = origins(branches)
    carried = [_carried_facts(hop.body, hop.effective) for hop in branches]
    versions: dict[str, list[Fact]] = {}
    for branch in carried:
        for fact in branch.facts.values():
            versions.setdefault(fact.id, []).append(fact)
    facts = {fact_id: _least_confident(found, before) for fact_id, found in versions.items()}
    critical = frozenset(fact for branch in carried for fact in branch.critical)
    listed = dict.fromkeys(fact for hop in branches for fact in hop.body.handed_on)
    fit = [fact for fact in listed if fact in facts and not is_blocked(facts[fact].confidence)]
    return _Carried(
        facts,
        [fact for fact in fit if fact in critical],
        [fact for fact in fit if fact not in critical],
        frozenset(fact for branch in carried for fact in branch.written),
    )


def _least_confident(versions: Sequence[Fact], before: Sequence[Body]) -> Fact:
    """A version with a changed text, else the one with the lowest confidence; with the lowest of all."""
    old = {body.facts[fact.id].text for body in before for fact in versions[:1] if fact.id in body.facts}
    first = min(
        versions,
        key=lambda fact: (fact.text in old, fact.confidence or 0.0, fact.source or "", fact.step or 0),
    )
    return replace(first, confidence=lowest(fact.confidence for fact in versions))


def rename_facts(document: Handoff, names: Mapping[str, str]) -> Handoff:
    """The document with other ids for some facts, in the facts, the trace and the lists.

    >>> document = Handoff(Chain("c", 1, "a", "b"), {"F1": Fact("F1", "t", 0.9)}, instruction="go")
    >>> list(rename_facts(document, {"F1": "F7"}).facts)
    ['F7']
    """
    wanted("document", document, Handoff, "a hand-off")
    wanted_names("names", names)

    def renamed(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(fact, fact) for fact in ids)

    facts = {
        names.get(fact.id, fact.id): replace(
            fact, id=names.get(fact.id, fact.id), derived_from=renamed(fact.derived_from)
        )
        for fact in document.facts.values()
    }
    trace = document.trace and tuple(
        replace(
            entry,
            facts_added=renamed(entry.facts_added),
            facts_modified=renamed(entry.facts_modified),
            facts_at_failure=entry.facts_at_failure and renamed(entry.facts_at_failure),
        )
        for entry in document.trace
    )
    lists = document.lists and replace(
        document.lists, critical=renamed(document.lists.critical), context=renamed(document.lists.context)
    )
    return replace(document, facts=frozen(facts), trace=trace, lists=lists)


def free_ids(document: Body, count: int = 1) -> tuple[str, ...]:
    """Ids of the form F1, F2, … above those of all facts in a document and its trace.

    >>> free_ids(Handoff(Chain("c"), {"F2": Fact("F2")}), 2)
    ('F3', 'F4')
    """
    wanted("document", document, Body, "a hand-off or a debug document")
    wanted("count", count, int, "a whole number")
    taken = {*document.facts, *(fact for entry in document.entries for fact in entry.written)}
    numbers = (int(fact[1:]) for fact in taken if fact[:1] == "F" and fact[1:].isdecimal() and len(fact) < 12)
    highest = max(numbers, default=0)
    return tuple(f"F{highest + place}" for place in range(1, count + 1))


def new_ids(branches: Sequence[Hop]) -> list[dict[str, str]]:
    """For each branch, new ids for the facts whose ids an earlier branch uses for different facts.

    A fact from before the fork keeps its id: different statements about it are a conflict.
    """
    bodies, before = [hop.body for hop in wanted_hops("branches", branches)], origins(branches)
    known = {fact for body in before for fact in body.facts}
    clashes = {c.fact for c in conflicts(bodies, before) if c.texts and c.fact not in known}
    count = sum(fact in body.facts for body in bodies for fact in clashes)
    every = {fact: Fact(fact) for body in bodies for fact in (*body.facts, *_written(body))}
    free = iter(free_ids(Handoff(Chain(), every), count))
    seen: set[str] = set()
    names: list[dict[str, str]] = []
    for body in bodies:
        own = [fact for fact in body.facts if fact in clashes]
        names.append({fact: next(free) for fact in own if fact in seen})
        seen.update(own)
    return names


def _written(document: Body) -> Iterable[str]:
    return (fact for entry in document.entries for fact in entry.written)


# ---------------------------------------------------------------- parts


def _next_step(documents: Sequence[Body]) -> int:
    """The number of the step after all steps in these documents."""
    highest = [body.highest_step for body in documents if body.highest_step is not None]
    stated = [body.chain.step for body in documents if body.chain.step is not None]
    return max(highest or stated or [0]) + 1


def _chain_step(step: int, documents: Sequence[Body]) -> int:
    """The step of the new document: at least `step`, and above those of all documents before."""
    return max([step, *(body.chain.step + 1 for body in documents if body.chain.step is not None)])


def _carried_facts(document: Body, values: Mapping[str, Confidence]) -> _Carried:
    """The facts of a document with their effective confidence; those below 0.40 or unknown are not listed."""
    facts = {
        fact.id: replace(fact, confidence=values[fact.id] if values[fact.id] is not None else 0.0)
        for fact in document.facts.values()
    }
    fit = [fact for fact in document.handed_on if fact in facts and not is_blocked(facts[fact].confidence)]
    critical = frozenset(document.critical)
    written = frozenset((*_written(document), *_derived_from(facts.values())))
    return _Carried(facts, [f for f in fit if f in critical], [f for f in fit if f not in critical], written)


def _derived_from(facts: Iterable[Fact]) -> Iterable[str]:
    return (parent for fact in facts for parent in fact.derived_from)


def _with_work(carried: _Carried, work: Work, step: int, before: Sequence[Effective]) -> _Carried:
    """The carried facts with those that the work adds, modifies and drops.

    `before` are the earlier confidences of facts, including facts that are no longer carried: a new fact
    with the id of such a fact does not exceed its confidence, nor does one that derives from it.
    """
    facts = dict(carried.facts)
    demoted, dropped = frozenset(work.demoted), frozenset(work.dropped)
    _refuse_clashes(facts, work)
    _refuse_unknown_parents({*facts, *carried.written, *(fact for known in before for fact in known)}, work)
    for fact in work.modified:
        capped = lowest([fact.confidence, facts[fact.id].confidence])
        facts[fact.id] = replace(fact, confidence=capped, source=work.agent, step=step)
    for fact in work.facts:
        facts[fact.id] = replace(fact, source=fact.source or work.agent, step=fact.step or step)
    worth = effective(Handoff(Chain(), facts), before)
    for fact in (*work.facts, *work.modified):
        if facts[fact.id].confidence is not None:  # None is reported by the check of the document
            known = worth[fact.id]
            facts[fact.id] = replace(facts[fact.id], confidence=0.0 if known is None else known)
    new = [fact.id for fact in work.facts if not is_blocked(facts[fact.id].confidence)]
    wanted = new if work.critical is None else list(work.critical)
    critical = [fact for fact in dict.fromkeys((*carried.critical, *wanted)) if fact not in demoted]
    context = [fact for fact in dict.fromkeys((*carried.context, *demoted, *new)) if fact not in critical]
    return _Carried(
        {name: fact for name, fact in facts.items() if name not in dropped},
        [fact for fact in critical if fact not in dropped and not _is_unlisted(facts, fact)],
        [fact for fact in context if fact not in dropped and not _is_unlisted(facts, fact)],
    )


def _is_unlisted(facts: Mapping[str, Fact], fact: str) -> bool:
    return fact in facts and is_blocked(facts[fact].confidence)


def _refuse_unknown_parents(known: Collection[str], work: Work) -> None:
    """Refuse facts that derive from one that the chain never had: their confidence would not be lowered."""
    there = {*known, *(fact.id for fact in work.facts)}
    unknown = [
        Finding("V09", 0, _no_parent(fact, parent, there), ("facts", fact.id, "derived_from"), fact=fact.id)
        for fact in (*work.facts, *work.modified)
        for parent in fact.derived_from
        if parent not in there
    ]
    if unknown:
        raise LctlError.of(unknown)


def _no_parent(fact: Fact, parent: str, there: Collection[str]) -> str:
    suggestions = did_you_mean(parent, there)
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
    return f"{shown_id(fact.id)} derives from {shown_id(parent)}, and the chain has no such fact{hint}"


def _refuse_clashes(facts: Mapping[str, Fact], work: Work) -> None:
    known = [
        Finding(
            "T08",
            0,
            f"{shown_id(fact.id)} is taken; ids of facts are unique",
            ("facts", fact.id),
            fact=fact.id,
        )
        for fact in work.facts
        if fact.id in facts
    ]
    unknown = [
        Finding("T09", 0, f"there is no {shown_id(fact.id)} to modify", ("facts", fact.id), fact=fact.id)
        for fact in work.modified
        if fact.id not in facts
    ]
    if known or unknown:
        raise LctlError.of([*known, *unknown])


def _merged_traces(bodies: Sequence[Body]) -> tuple[Entry, ...]:
    """The entries of all branches without duplicates, in the order of their steps."""
    entries: dict[tuple[int | None, str | None, int], Entry] = {}
    for body in bodies:
        seen: dict[tuple[int | None, str | None], int] = {}
        for entry in body.entries:
            key = (entry.step, entry.agent)
            seen[key] = seen.get(key, 0) + 1
            entries.setdefault((*key, seen[key]), entry)
    return tuple(sorted(entries.values(), key=lambda entry: entry.step or 0))


def _document(
    chain: Chain, carried: _Carried, entries: tuple[Entry, ...] | None, work: Work, *, with_lists: bool
) -> Handoff:
    """The document. The minimal form has lists too if there are warnings or facts that are not critical."""
    facts = frozen(carried.facts)
    critical, context = tuple(carried.critical), tuple(carried.context)
    if not with_lists and not work.warnings and set(critical) == set(facts):
        return Handoff(chain, facts, instruction=work.instruction)
    lists = Lists(critical, context, tuple(work.warnings))
    purpose = None if entries is None else "observability"
    return Handoff(chain, facts, entries, lists, work.instruction, purpose)


def _checked(handoff: Handoff, after: tuple[Hop, ...]) -> Handoff:
    """The document; raises `LctlError` if it breaks a rule of level error in its chain."""
    places = {len(after): tuple(range(len(after)))} | dict.fromkeys(range(len(after)), ())
    report = check([*(hop.body for hop in after), handoff], places)
    errors = [finding for finding in report.of(len(after)) if finding.is_error]
    if errors:
        raise LctlError.of(errors, report.readings[len(after)].source)
    return handoff
