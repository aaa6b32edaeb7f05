"""Predicts what the plan in a text would do with the available tools; nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callsheet.api.dryrun import DryRun, dry_run_of
from callsheet.api.proving import Assumptions
from callsheet.api.requirements import facts_of
from callsheet.apps.operations.checking import check_text
from callsheet.apps.operations.library import bound
from callsheet.apps.operations.proving import prove_text
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, to_json
from callsheet.ir import JSON
from callsheet.policy.model import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """The assumptions of a prediction: variables, results of steps, a price, approvals, a policy."""

    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    assume: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    price: float | None = None
    """The price of a million prompt tokens."""
    approve: Iterable[str] = ()
    policy: Policy | None = None
    approved: Iterable[str] = ()
    """The ids of steps that a person has approved."""
    journal: Path | None = None
    """The journal beside which the labels of files from earlier runs are stored."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a plan would do; `ok` is False if the policy refuses it."""

    text: PlanText
    dry_run: DryRun
    ok: bool
    diagnostics: tuple[Diagnostic, ...]

    def to_json(self) -> dict[str, Any]:
        """The prediction as data, in the form of `callsheet dry-run --json`."""
        rows = to_json(self.diagnostics, self.text.source)
        return {"ok": self.ok, "plan": self.text.source.name, **self.dry_run.to_json(), "diagnostics": rows}


def predict(text: PlanText, declared: DeclaredTools, options: PredictionOptions) -> Prediction:
    """Predict what a plan would do; raises CallsheetError for a plan with errors."""
    plan = text.require()
    inputs = bound(text, dict(options.inputs), ())
    checked = check_text(text, declared, inputs)
    if not checked.ok:
        raise CallsheetError(checked.diagnostics, text.source)
    warnings = tuple(d for d in checked.diagnostics if d.severity is Severity.WARNING)
    facts = facts_of(plan, declared.local, agents=declared.setup.agents)
    asks = (*declared.setup.settings.approve, *options.approve)
    dry_run = dry_run_of(plan, facts, inputs, options.assume, asks, options.price)
    if options.policy is None:
        return Prediction(text, dry_run, True, warnings)
    assumed = Assumptions(inputs=inputs, approved=options.approved)
    proved = prove_text(text, options.policy, declared, assumed, journal=options.journal)
    if proved.proof is not None:
        dry_run = dry_run.under(proved.proof)
    return Prediction(text, dry_run, proved.ok, (*warnings, *proved.diagnostics))
