"""Data model of LCTL documents, immutable: hand-offs, post-mortems, acks, traces, facts, and their ids.

In: ids, which may be any text. Out: short texts on one line; pairs of ids that differ only in case, in
leading zeros, or in letters, digits and invisible characters that look alike.

A field that a document lacks, or has with a wrong type, is None here. Unknown keys
and values of a wrong type are kept in `extra`, so that they are written again.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from callsheet import lazy
from callsheet.frontends.unseen import LATIN_OF

SHORT_ID = lazy.pattern(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""The form of an id of a fact."""
_MOST_SHOWN = 40
_ONE = dict.fromkeys("1I|", "l")
"""What is read as a small L."""
_SHAPES = str.maketrans(
    {**{other: _ONE.get(latin, latin) for other, latin in LATIN_OF.items()}, **_ONE, "0": "O"}
)
_LEADING_ZEROS = lazy.pattern(r"(?<!\d)0+(?=\d)")


class Alike(NamedTuple):
    """An id, and an earlier one that reads like it."""

    fact: str
    other: str


def shown_id(fact: str) -> str:
    """A short identifier as it is, any other text quoted, escaped and cut.

    >>> print(shown_id("F1"), shown_id("F1 0.99, F2"), shown_id("F\\u200b1"))
    F1 "F1 0.99, F2" "F\\u200b1"
    """
    if SHORT_ID.fullmatch(fact):
        return fact
    return json.dumps(fact if len(fact) <= _MOST_SHOWN else f"{fact[:_MOST_SHOWN]}...")


def shown_ids(facts: Iterable[str]) -> str:
    """Ids in one line, separated by commas."""
    return ", ".join(map(shown_id, facts))


def shown_name(name: str) -> str:
    """The name of an agent on one line, cut, with escapes for what is not printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name[:_MOST_SHOWN])


def alike(facts: Iterable[str], known: Iterable[str] = ()) -> Iterator[Alike]:
    """The ids among `facts` that read like an earlier one of them, or like one of those `known`.

    >>> list(alike(["F1", "F2", "F01"], ["f2"]))
    [Alike(fact='F2', other='f2'), Alike(fact='F01', other='F1')]
    """
    first: dict[str, str] = {}
    for fact in known:
        for reading in _readings(fact):
            first.setdefault(reading, fact)
    for fact in facts:
        others = [first.setdefault(reading, fact) for reading in _readings(fact)]
        other = next((other for other in others if other != fact), None)
        if other is not None:
            yield Alike(fact, other)


def _readings(fact: str) -> tuple[str, str]:
    """What an id is read as at a glance: without its case, and by the shapes of its letters."""
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", fact) if unicodedata.category(c) not in ("Cf", "Mn", "Me")
    )
    short = _LEADING_ZEROS.sub("", " ".join(plain.split()))
    return f"case {short.casefold()}", f"shape {short.translate(_SHAPES)}"


VERSION = "3.0"

Extra: TypeAlias = Mapping[str, Any]
"""Parts of a document outside the model, by key, as plain data."""


def no_extra() -> Extra:
    """An empty `Extra`."""
    return MappingProxyType({})


class Raw(NamedTuple):
    """A value in the place of an entry or a fact that is not a mapping."""

    value: Any


class Kind(StrEnum):
    """The kind of a document."""

    HANDOFF = "handoff"
    DEBUG = "debug"
    ACK = "ack"


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement with an id and a confidence.

    `confidence` is a number from 0 to 1, None where it is unknown. `source` and `step` are those of
    the entry that wrote the fact last. `derived_from` names the facts that it follows from (an
    extension of this library), whose lowest confidence limits its own.

    >>> Fact("F1", "Invoice 881 totals 120.50 EUR", 0.96).confidence
    0.96
    """

    id: str
    text: str | None = None
    confidence: float | None = None
    source: str | None = None
    step: int | None = None
    note: str | None = None
    derived_from: tuple[str, ...] = ()
    extra: Extra = field(default_factory=no_extra)
    raw: Raw | None = None


def not_blank(text: str | None) -> str | None:
    """The text; None for a blank one, which is reported as missing and compared with nothing."""
    return text if text is not None and text.strip() else None


@dataclass(frozen=True, slots=True)
class Entry:
    """A step of the trace: who did what, with which confidence, and the facts that resulted."""

    step: int | None = None
    agent: str | None = None
    action: str | None = None
    confidence: float | None = None
    facts_added: tuple[str, ...] = ()
    facts_modified: tuple[str, ...] = ()
    parallel: bool = False
    duration_ms: float | None = None
    error: str | None = None
    facts_at_failure: tuple[str, ...] | None = None
    extra: Extra = field(default_factory=no_extra)
    raw: Raw | None = None

    @property
    def written(self) -> tuple[str, ...]:
        """The facts that the step added or modified."""
        return (*self.facts_added, *self.facts_modified)

    @property
    def has_error(self) -> bool:
        """Whether the step names an error; a blank text names none."""
        return not_blank(self.error) is not None


@dataclass(frozen=True, slots=True)
class Chain:
    """The section `chain`: sender, receiver, id of the chain and step."""

    id: str | None = None
    step: int | None = None
    source: str | None = None
    target: str | None = None
    parallel_merge: bool = False
    status: str | None = None
    failed_at_step: int | None = None
    extra: Extra = field(default_factory=no_extra)

    @property
    def has_failed(self) -> bool:
        """Whether the status is FAILED, in any case of letters."""
        return self.status is not None and self.status.casefold() == "failed"


@dataclass(frozen=True, slots=True)
class Lists:
    """The section `handoff`: critical facts, context facts and warnings."""

    critical: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Extra = field(default_factory=no_extra)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The section `analysis` of a post-mortem."""

    root_cause: str | None = None
    confidence: float | None = None
    recommendation: str | None = None
    extra: Extra = field(default_factory=no_extra)


@dataclass(frozen=True, slots=True)
class Body(ABC):
    """The common part of hand-offs and post-mortems; `trace` and `lists` are None if absent."""

    chain: Chain
    facts: Mapping[str, Fact] = field(default_factory=lambda: MappingProxyType({}))
    trace: tuple[Entry, ...] | None = None
    lists: Lists | None = None
    instruction: str | None = None
    purpose: str | None = None
    analysis: Analysis | None = None
    version: str | None = VERSION
    extra: Extra = field(default_factory=no_extra)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The steps of the trace; empty without one."""
        return self.trace or ()

    @property
    def has_trace(self) -> bool:
        """Whether there is a section `trace`, even an unreadable one."""
        return self.trace is not None or "trace" in self.extra

    @property
    def is_minimal(self) -> bool:
        """Whether this is the minimal form: neither a trace nor a section `handoff`."""
        return not self.has_trace and self.lists is None and "handoff" not in self.extra

    @property
    def critical(self) -> tuple[str, ...]:
        """The facts that must be preserved; in the minimal form all."""
        if self.lists is not None:
            return tuple(dict.fromkeys(self.lists.critical))
        return tuple(self.facts) if self.is_minimal and self.kind is Kind.HANDOFF else ()

    @property
    def handed_on(self) -> tuple[str, ...]:
        """The listed facts, critical and context, without duplicates."""
        context = self.lists.context if self.lists is not None else ()
        return tuple(dict.fromkeys((*self.critical, *context)))

    @property
    def highest_step(self) -> int | None:
        """The highest step of the trace; None without one."""
        return max((entry.step for entry in self.entries if entry.step is not None), default=None)

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of the document."""


@dataclass(frozen=True, slots=True)
class Handoff(Body):
    """A document that one agent hands to the next.

    >>> hop = Handoff(Chain("inv-7", 2, "reader", "checker"), instruction="Check the total")
    >>> hop.is_minimal, hop.kind
    (True, <Kind.HANDOFF: 'handoff'>)
    """

    @property
    def kind(self) -> Kind:
        """A hand-off."""
        return Kind.HANDOFF


@dataclass(frozen=True, slots=True)
class DebugDocument(Body):
    """A post-mortem: what a chain did, where it failed, and why."""

    @property
    def kind(self) -> Kind:
        """A post-mortem."""
        return Kind.DEBUG


@dataclass(frozen=True, slots=True)
class Ack:
    """An agent's acknowledgement of a hand-off: the facts it loaded, and those whose confidence it doubts."""

    chain_id: str | None = None
    step: int | None = None
    agent: str | None = None
    status: str | None = None
    facts_loaded: tuple[str, ...] | None = None
    confidence_concerns: tuple[str, ...] | None = None
    extra: Extra = field(default_factory=no_extra)
    """Unknown keys inside lctl_ack."""
    beside: Extra = field(default_factory=no_extra)
    """Unknown keys beside lctl_ack."""

    @property
    def kind(self) -> Kind:
        """An ack."""
        return Kind.ACK


Document: TypeAlias = Handoff | DebugDocument | Ack
