"""What somebody wants of a host: a run started, carried on, or branched off from another.

In: what a face has read of a request. Out: values; nothing is checked against tools here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from callsheet.apps.operations.reading import PlanText
from callsheet.ir import JSON
from callsheet.machine import Limits
from callsheet.machine.machine import Observer
from callsheet.policy.model import Policy
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import Resolution
from callsheet.runtime.forking import Edits

_NOT_BOUNDS = frozenset({"schedule", "retry_delay", "retry_backoff", "max_retry_delay"})


@dataclass(frozen=True, slots=True)
class Ears:
    """Who follows a run besides its journal, and who answers for people while it goes on.

    The observer is told no secret. Without a respondent a run that waits for people leaves its place to
    others, and goes on when `Host.answer` has the answer.
    """

    observer: Observer | None = None
    present: Respondents = field(default_factory=Respondents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A plan to be run.

    `inputs` are variables by name; those that `secrets` names are sealed in the journal. `limits` are those
    of the host, made tighter by these changes. `approve` names tools besides those of the settings before
    whose calls a person is asked. `policy` holds where the host has none; `approved` are the steps that
    somebody has said yes to.
    """

    text: PlanText
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    secrets: frozenset[str] = frozenset()
    run_id: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    on_in_doubt: str | None = None
    policy: Policy | None = None
    approved: tuple[str, ...] = ()
    accepts_changed_tools: bool = False
    ears: Ears = field(default_factory=Ears)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """On what terms a run is carried on: as `callsheet resume` takes them.

    `limits` makes, of those that the run has, those that hold from now on.
    """

    in_doubt: Resolution | None = None
    accepts_changed_tools: bool = False
    limits: Callable[[Limits], Limits] | None = None
    ears: Ears = field(default_factory=Ears)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOrder:
    """A run again from a step of another; `effects` says that what changes something outside may happen."""

    place: str
    effects: bool = False
    run_id: str | None = None
    by: str = ""
    terms: Resumption = field(default_factory=Resumption)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrder:
    """A run that goes its own way after the event `at` of another, with something edited there."""

    at: int
    edits: Edits = field(default_factory=Edits)
    effects: bool = False
    run_id: str | None = None
    terms: Resumption = field(default_factory=Resumption)


def tightened(own: Limits, changes: Mapping[str, Any]) -> Limits:
    """Limits with changes that only tighten: of each bound the lower one; the pace is taken as it is given.

    Raises ValueError or TypeError for changes that are none.

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
