"""Dry-runs the plan in a text: checks it, proves it under a policy, and predicts what it would do.

In: a text, a setup, assumptions. Out: a prediction with warnings. Nothing is run: servers are started only on
request, to list their tools, and no journal is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.diagnostics import CallsheetError, Diagnostic, to_json

if TYPE_CHECKING:
    from callsheet.api.dryrun import DryRun
    from callsheet.api.proving import Proof
    from callsheet.apps.operations.reading import PlanText
    from callsheet.apps.setup import Setup
    from callsheet.policy.model import Policy
    from callsheet.ports.tools import Registry

_NOT_HERE = "CHK040"


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """The options of a dry run."""

    assumed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Assumed results, by step id."""
    price: float | None = None
    """The price of a million prompt tokens."""
    asks_servers: bool = False
    """Whether MCP servers are started to list their tools."""
    approve: tuple[str, ...] = ()
    """The tools that need approval, besides those of the settings."""
    approved: tuple[str, ...] = ()
    """The ids of steps that a person has approved."""
    secrets: tuple[str, ...] = ()
    """The names of variables whose values are secret."""
    is_recorded: bool = True
    """Whether the run would have a journal."""
    journal: Path | None = None
    """The journal beside which the labels of files from earlier runs are stored; None ignores them."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The prediction for a plan; `ok` is False if the policy refuses it.

    `not_asked` names the servers that were not queried for unknown tools; None if there are none.
    """

    text: PlanText
    dry_run: DryRun
    warnings: tuple[Diagnostic, ...]
    not_asked: str | None
    ok: bool

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """The warnings, without those about unknown tools, which `absent` counts."""
        return tuple(d for d in self.warnings if d.code != _NOT_HERE and not d.is_error)

    @property
    def absent(self) -> str:
        """A sentence with the number of calls of unknown tools; empty if no server was left out."""
        if self.not_asked is None:
            return ""
        count = sum(d.code == _NOT_HERE for d in self.warnings)
        calls = f"{count} call{'s' if count != 1 else ''}"
        return f"{calls} of unknown tools, and {self.not_asked} was not asked"

    def to_text(self, columns: int) -> str:
        """The prediction as text, `columns` wide."""
        from callsheet.views.columns import escaped  # noqa: PLC0415 - not for --help

        return f"dry run of {escaped(self.text.source.name)}\n{self.dry_run.to_text(columns)}"

    def to_json(self) -> dict[str, Any]:
        """The prediction and the diagnostics, as data."""
        source = self.text.source
        rows = [{"source": source.name, **row} for row in to_json(self.warnings, source)]
        return {"ok": self.ok, "plan": source.name, **self.dry_run.to_json(), "diagnostics": rows}


def dry_run_text(
    text: PlanText, setup: Setup, inputs: dict[str, Any], options: DryRunOptions, policy: Policy | None = None
) -> DryRunResult:
    """Predict what a plan would do; raises CallsheetError for a plan with errors.

    `inputs` are its variables, including the parameters. May start servers and wait for them.
    """
    from callsheet.api.dryrun import dry_run_of  # noqa: PLC0415 - not for --help
    from callsheet.api.requirements import facts_of  # noqa: PLC0415 - as above
    from callsheet.apps.operations.checking import require_plan  # noqa: PLC0415 - as above

    plan = require_plan(text, setup, inputs)
    registry, warnings, not_asked = _checked(text, setup, inputs, asks_servers=options.asks_servers)
    facts = facts_of(plan, registry, agents=setup.agents)
    asks = (*setup.settings.approve, *options.approve)
    dry_run = dry_run_of(plan, facts, inputs, options.assumed, asks, options.price)
    if policy is None:
        return DryRunResult(text, dry_run, warnings, not_asked, ok=True)
    proof = _proof(text, setup, registry, inputs, options, policy)
    return DryRunResult(text, dry_run.under(proof), (*warnings, *proof.diagnostics), not_asked, proof.ok)


def _proof(
    text: PlanText,
    setup: Setup,
    registry: Registry,
    inputs: dict[str, Any],
    options: DryRunOptions,
    policy: Policy,
) -> Proof:
    """Prove the plan against the policy."""
    from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - only under a policy
    from callsheet.apps.guarantees import guarantees_of  # noqa: PLC0415 - as above
    from callsheet.passes.verify import NOTHING_LEFT  # noqa: PLC0415 - as above
    from callsheet.runtime.remaining import left_before  # noqa: PLC0415 - as above
    from callsheet.store.start import secret_labels  # noqa: PLC0415 - as above

    is_recorded, journal = options.is_recorded, options.journal
    assumed = Assumptions(
        inputs=inputs,
        labels=secret_labels(policy, options.secrets),
        approved=options.approved,
        can_ask=is_recorded,
        left=left_before(journal, setup.folder) if journal is not None else NOTHING_LEFT,
    )
    proof = prove(text.require(), policy, registry, assumed)
    return proof.under(guarantees_of(setup, registry, keeps_labels=is_recorded))


def _checked(
    text: PlanText, setup: Setup, inputs: dict[str, Any], *, asks_servers: bool
) -> tuple[Registry, tuple[Diagnostic, ...], str | None]:
    """The tools, the remarks about the plan, and the servers that were not queried for unknown tools.

    Raises CallsheetError with all findings if one is an error.
    """
    from callsheet.api.checking import check_plan, idle_inputs  # noqa: PLC0415 - as above
    from callsheet.apps.tool_declarations import DeclaredTools  # noqa: PLC0415 - as above

    plan = text.require()
    declared = DeclaredTools(setup)
    registry, before, not_asked = declared.tools_for(plan, asks_servers=asks_servers)
    found = (
        *before,
        *check_plan(plan, registry, inputs, not_asked=not_asked, providers=setup.providers),
        *declared.agent_tool_diagnostics(plan, registry, not_asked),
        *idle_inputs(plan, inputs),
    )
    if any(d.is_error for d in found):
        raise CallsheetError(found, text.source)
    return registry, (*text.diagnostics, *found), not_asked
