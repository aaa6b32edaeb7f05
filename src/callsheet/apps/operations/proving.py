"""Proves the plan in a text against a policy and the available tools; nothing is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from callsheet.api.checking import check_plan
from callsheet.api.proving import NO_ASSUMPTIONS, Assumptions, Proof, prove
from callsheet.apps.guarantees import guarantees_of
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.diagnostics import Diagnostic, Severity, did_you_mean, to_json
from callsheet.ir import Plan
from callsheet.policy.model import Policy
from callsheet.runtime.remaining import left_before


@dataclass(frozen=True, slots=True)
class Proved:
    """A text with its proof and the diagnostics.

    `proof` is None for a text that is not a plan, or if it lacks one of the `approved` steps.
    """

    text: PlanText
    proof: Proof | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether the plan may run under the policy."""
        return self.proof is not None and not any(d.is_error for d in self.diagnostics)

    def row(self) -> dict[str, Any]:
        """The proof as data."""
        return {**({} if self.proof is None else self.proof.to_json()), "ok": self.ok}

    def to_json(self) -> dict[str, Any]:
        """The proof and the diagnostics, as data."""
        return {**self.row(), "diagnostics": to_json(self.diagnostics, self.text.source)}


def prove_text(
    text: PlanText,
    policy: Policy,
    declared: DeclaredTools,
    assumed: Assumptions = NO_ASSUMPTIONS,
    *,
    asks_servers: bool = False,
    journal: Path | None = None,
) -> Proved:
    """Prove the plan in a text against a policy.

    Servers are queried for tools that are not among the `declared` ones only with `asks_servers`. Files that
    earlier runs of the `journal` wrote have the labels that are stored beside it.
    """
    if text.plan is None:
        return Proved(text, None, text.diagnostics)
    inputs, approved = tuple(assumed.inputs), tuple(assumed.approved)
    unknown = unknown_steps(text.plan, approved)
    if unknown:
        return Proved(text, None, unknown)
    registry, before, not_asked = declared.tools_for(text.plan, asks_servers=asks_servers)
    checked = check_plan(text.plan, registry, inputs, not_asked=not_asked, providers=declared.providers)
    errors = tuple(d for d in (*text.diagnostics, *before, *checked) if d.is_error)
    if journal is not None:
        assumed = replace(assumed, left=left_before(journal, declared.setup.folder))
    assumed = replace(assumed, inputs=inputs, approved=approved)
    proof = prove(text.plan, policy, registry, assumed, not_asked=not_asked)
    proof = proof.under(guarantees_of(declared.setup, registry))
    return Proved(text, proof, (*errors, *proof.diagnostics))


def unknown_steps(plan: Plan, approved: Iterable[str]) -> tuple[Diagnostic, ...]:
    """CFG010 for each approved step that the plan does not have."""
    ids = [step.id for step in plan.steps]
    return tuple(_unknown(given, ids) for given in approved if given not in ids)


def _unknown(given: str, ids: list[str]) -> Diagnostic:
    near = did_you_mean(given, ids)
    hint = f"did you mean {' or '.join(near)}?" if near else None
    message = f"the approved step {given[:40]!r} is not in the plan"
    return Diagnostic("CFG010", Severity.ERROR, message, help=hint)
