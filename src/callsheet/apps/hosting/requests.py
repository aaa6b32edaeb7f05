"""The requests to a host as data: start, resume, rerun or fork a run.

In: parsed requests of an application. Out: values; nothing is checked against tools here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from callsheet.api.run_service import ResumeTerms
from callsheet.apps.operations.reading import PlanText
from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine import Limits
from callsheet.machine.machine import Observer
from callsheet.policy.model import Policy
from callsheet.runtime.asking import Respondents

if TYPE_CHECKING:
    from callsheet.runtime.forking import Edits

_NOT_BOUNDS = frozenset({"schedule", "retry_delay", "retry_backoff", "max_retry_delay"})


def _no_edits() -> Edits:
    from callsheet.runtime.forking import Edits  # noqa: PLC0415 - brings forecasts

    return Edits()


@dataclass(frozen=True, slots=True)
class Listeners:
    """The observer of a run, and the respondent that answers its questions while it is running.

    The observer gets masked notes. Without a respondent, a run that waits for people frees its place and is
    resumed by `Host.answer`.
    """

    observer: Observer | None = None
    present: Respondents = field(default_factory=Respondents)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A plan to be run.

    `inputs` are variables by name; those named in `secrets` are encrypted in the journal. `limits` are
    changes that tighten the host's. `approve` names tools that need approval besides those of the settings.
    `policy` applies if the host has none; `approved` are the steps that a person has approved. `state` is the
    text of a state file of another program, whose completed steps are not executed again. `reads` is the
    label of what the author of the text and the inputs has read; `untrusted` are the inputs that somebody
    else has chosen.
    """

    text: PlanText
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    secrets: frozenset[str] = frozenset()
    untrusted: frozenset[str] = frozenset()
    run_id: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    on_in_doubt: str | None = None
    policy: Policy | None = None
    approved: tuple[str, ...] = ()
    accepts_changed_tools: bool = False
    state: str | None = None
    reads: Label = LITERAL
    listeners: Listeners = field(default_factory=Listeners)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions(ResumeTerms):
    """The terms on which a run is resumed, as in `callsheet resume`, and who listens."""

    listeners: Listeners = field(default_factory=Listeners)


AS_RECORDED = ResumeOptions(as_recorded=True)
"""The terms of a run that was admitted already: new, or resumed by an answer or a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequest:
    """Run a plan again from a step of another run, or an edited `plan` that keeps what it has in common.

    With `failed_items` the failed items of its loops are run again.

    With `ends_parent` the other run is ended before, since the new one goes on for it.

    `effects` allows calls that change something outside: True for any, or the `consent` of a prepared fork
    for exactly the calls that it shows.
    """

    place: str = ""
    plan: PlanText | None = None
    failed_items: bool = False
    ends_parent: bool = False
    effects: bool | str = False
    run_id: str | None = None
    by: str = ""
    terms: ResumeOptions = field(default_factory=ResumeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Continue in a new run after the event `at` of another, with edits; `effects` as for a rerun."""

    at: int
    edits: Edits = field(default_factory=_no_edits)
    effects: bool | str = False
    run_id: str | None = None
    terms: ResumeOptions = field(default_factory=ResumeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """Take back what the calls of a run did, from the step `place` on (empty: all); `effects` as for a rerun.

    An undoing that has not ended goes on, on these terms.
    """

    place: str = ""
    effects: bool | str = False
    terms: ResumeOptions = field(default_factory=ResumeOptions)


def tightened(own: Limits, changes: Mapping[str, Any]) -> Limits:
    """Limits with changes that only tighten: the lower value of each bound, but the pace as given.

    Raises ValueError or TypeError for invalid changes.

    >>> tightened(Limits(max_calls=10), {"max_calls": 50, "max_steps": 5}).max_calls
    10
    """
    asked = own.changed(changes)
    bounds: dict[str, Any] = {}
    for name in changes:
        mine, theirs = getattr(own, name), getattr(asked, name)
        if name in _NOT_BOUNDS:
            continue
        if isinstance(mine, Mapping):
            bounds[name] = _lower(cast("Mapping[str, int]", mine), theirs)
        elif theirs is None or (mine is not None and mine < theirs):
            bounds[name] = mine
    return replace(asked, **bounds)


def _lower(mine: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    return {name: min(most, mine.get(name, most)) for name, most in theirs.items()}
