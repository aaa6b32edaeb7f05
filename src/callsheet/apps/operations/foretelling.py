"""Predicts what the plan in a text would do with the available tools; nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callsheet.api.dryrun import DryRun, dry_run_of
from callsheet.api.reach import facts_of
from callsheet.apps.operations.checking import check_text
from callsheet.apps.operations.library import bound
from callsheet.apps.operations.proving import prove_text
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.shelf import Shelf
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, to_json
from callsheet.ir import JSON
from callsheet.policy.model import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """What is taken as given: variables, results of steps, a price, what a run would be held to."""

    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    assume: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    price: float | None = None
    """What a million tokens of prompts cost."""
    approve: Iterable[str] = ()
    policy: Policy | None = None
    approved: Iterable[str] = ()
    """The ids of steps to which somebody has said yes."""
    journal: Path | None = None
    """Where it is noted what earlier runs have left in files."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What a text would do, and whether the policy lets it."""

    text: PlanText
    told: DryRun
    ok: bool
    diagnostics: tuple[Diagnostic, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it as data, in the form of `callsheet dry-run --json`."""
        rows = to_json(self.diagnostics, self.text.source)
        return {"ok": self.ok, "plan": self.text.source.name, **self.told.to_json(), "diagnostics": rows}


def foretell(text: PlanText, shelf: Shelf, supposed: Supposed) -> Foretold:
    """Say what a plan would do; raises CallsheetError for a text that would not be run."""
    plan = text.require()
    inputs = bound(text, dict(supposed.inputs), ())
    checked = check_text(text, shelf, inputs)
    if not checked.ok:
        raise CallsheetError(checked.diagnostics, text.source)
    said = tuple(d for d in checked.diagnostics if d.severity is Severity.WARNING)
    facts = facts_of(plan, shelf.local, agents=shelf.setup.agents)
    asks = (*shelf.setup.settings.approve, *supposed.approve)
    told = dry_run_of(plan, facts, inputs, supposed.assume, asks, supposed.price)
    if supposed.policy is None:
        return Foretold(text, told, True, said)
    proved = prove_text(
        text, supposed.policy, shelf, inputs, approved=supposed.approved, journal=supposed.journal
    )
    if proved.proof is not None:
        told = told.under(proved.proof)
    return Foretold(text, told, proved.ok, (*said, *proved.diagnostics))
