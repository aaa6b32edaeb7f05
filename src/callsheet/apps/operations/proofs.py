"""Proves the plan in a text against a policy, and predicts what it would do; nothing is run.

In: a text, the available tools, assumptions. Out: a proof or a prediction, with diagnostics. Servers are
started only on request, to list their tools, and no journal is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

from callsheet.api.checking import check_plan
from callsheet.api.dryrun import DryRun, dry_run_of, either
from callsheet.api.policy_entries import servers_of_pinned
from callsheet.api.proving import NO_ASSUMPTIONS, Assumptions, Proof, prove
from callsheet.api.requirements import absent_tools, facts_of, with_inverses
from callsheet.apps.equipment import guarantees_of
from callsheet.apps.operations.checking import check_with
from callsheet.apps.operations.schema import (
    DiagnosticRow,
    Object,
    Ok,
    PlanHash,
    WorldsRow,
    diagnostic_rows,
)
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, meant
from callsheet.ir import JSON, Plan
from callsheet.passes.verify import NOTHING_LEFT
from callsheet.policy.model import WHETHER
from callsheet.runtime.remaining import left_before
from callsheet.store.start import labels_of_inputs
from callsheet.views.columns import escaped
from callsheet.views.describe import wording_of
from callsheet.views.labels import labels_json

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
    from callsheet.policy.model import Policy

_NOT_HERE = "CHK040"


class ViolationRow(TypedDict):
    """A violation of the policy."""

    step: str | None
    code: str
    rule: str
    message: str
    argument: str | None
    flow: list[str]
    help: str | None


class ProofRow(TypedDict):
    """The proof of a plan."""

    ok: Ok
    policy: NotRequired[Annotated[str, "the name of the policy"]]
    plan_hash: NotRequired[PlanHash]
    violations: NotRequired[list[ViolationRow]]
    obligations: NotRequired[Annotated[list[Object], "what a run has to ensure"]]


class ProofResult(ProofRow):
    """The proof of a plan, with diagnostics."""

    diagnostics: list[DiagnosticRow]


class LabelsResult(TypedDict):
    """The labels of the data of a plan under a policy."""

    ok: bool
    policy: str
    steps: Annotated[list[Object], "the labels of the data that each step reads and writes"]
    diagnostics: list[DiagnosticRow]


class PredictionResult(TypedDict):
    """The predicted run, with all keys of `callsheet dry-run --json`."""

    ok: Annotated[bool, "whether the policy allows the plan"]
    plan: str
    plan_hash: PlanHash
    steps: Annotated[list[Object], "what each step does, when and how often, and with which values"]
    totals: Annotated[Object, "calls by tool and effect, tokens and costs of models, questions"]
    unforeseen: Annotated[list[str], "what cannot be predicted"]
    blocks: NotRequired[Annotated[list[Object], "the loops and branches of a plan with blocks"]]
    policy: NotRequired[Annotated[Object, "what the policy refuses, asks and sees to"]]
    diagnostics: list[DiagnosticRow]
    worlds: NotRequired[WorldsRow]


# ---------------------------------------------------------------- proofs


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

    def row(self) -> ProofRow:
        """The proof as data."""
        if self.proof is None:
            return {"ok": self.ok}
        return cast("ProofRow", {**self.proof.to_json(), "ok": self.ok})

    def to_json(self) -> ProofResult:
        """The proof and the diagnostics, as data."""
        return {**self.row(), "diagnostics": diagnostic_rows(self.diagnostics, self.text.source)}

    def labels(self) -> LabelsResult:
        """The labels of the data of each step, as data."""
        proof, rows = self.proof, diagnostic_rows(self.diagnostics, self.text.source)
        if proof is None:
            return {"ok": False, "policy": "", "steps": [], "diagnostics": rows}
        steps = [*labels_json(proof.steps)]
        return {"ok": self.ok, "policy": proof.policy.name, "steps": steps, "diagnostics": rows}


_MOST_STEPS = 200
"""The largest plan for which a refusal looks for a way out by itself: each line that may help is proved."""


def duties_of(proof: Proof) -> list[str]:
    """What a run has to ensure, a line for each duty, which names tools and variables as the plan does."""
    words = wording_of(proof.plan)
    told = dict.fromkeys((each.step, each.kind, each.detail) for each in proof.obligations)
    return [f"  {step}: {kind}{f' ({words.prose(detail)})' if detail else ''}" for step, kind, detail in told]


def way_out(proof: Proof, policy: str) -> list[str]:
    """What to change so that a plan passes that a policy of this name refuses: the plan, or the policy.

    Empty for a plan that the rules do not refuse.
    """
    if proof.verdict.ok or proof.registry is None:
        return []
    from callsheet.api.policy_changes import proposal  # noqa: PLC0415 - only for a refusal

    command = f"`callsheet policy propose --from PLAN --policy {escaped(policy)}` writes"
    if len(proof.plan.steps) > _MOST_STEPS:
        return [f"{command} the smallest change of the policy, which takes a while for a plan of this size"]
    found = proposal([proof.plan], policy, proof.registry, proof.assumed or NO_ASSUMPTIONS)
    steps = ", ".join(dict.fromkeys(each.step or "the plan" for each in proof.verdict.violations))
    change = f"change the plan at {steps}, as the help says"
    if not found.ok:
        return [f"{change}; no line of a policy allows all of it"]
    times = f"{found.questions} time{'' if found.questions == 1 else 's'}"
    asks = f" (then asks {times})" if found.questions else ""
    lines = found.text.partition("\n\n")[2].strip().splitlines()
    return [
        f"{change}, or add to the policy, for every plan{asks}:",
        *(f"  {line}" for line in lines if line),
        f"{command} that",
    ]


def prove_text(
    text: PlanText,
    policy: Policy,
    declared: DeclaredTools,
    assumed: Assumptions = NO_ASSUMPTIONS,
    *,
    asks_servers: bool = False,
    journal: Path | None = None,
    keeps_labels: bool = True,
) -> Proved:
    """Prove the plan in a text against a policy.

    Servers are queried for tools that are not among the `declared` ones only with `asks_servers`. Files that
    earlier runs of the `journal` wrote have the labels that are stored beside it; `keeps_labels` says whether
    the run would store them too.
    """
    if text.plan is None:
        return Proved(text, None, text.diagnostics)
    policy = text.under(policy)
    inputs, approved = tuple(assumed.inputs), tuple(assumed.approved)
    unknown = unknown_steps(text.plan, approved)
    if unknown:
        return Proved(text, None, unknown)
    registry, before, not_asked = declared.tools_for(text.plan, asks_servers=asks_servers)
    if not_asked is None and not asks_servers:
        absent = absent_tools(text.plan, registry, declared.setup.agents)
        not_asked = servers_of_pinned(policy, absent) if absent else None
    checked = check_plan(text.plan, registry, inputs, not_asked=not_asked, providers=declared.providers)
    errors = tuple(d for d in (*text.diagnostics, *before, *checked) if d.is_error)
    if journal is not None:
        assumed = replace(assumed, left=left_before(journal, declared.setup.folder))
    assumed = replace(assumed, inputs=inputs, approved=approved)
    proof = prove(text.plan, policy, registry, assumed, not_asked=not_asked)
    proof = proof.under(guarantees_of(declared.setup, registry, keeps_labels=keeps_labels))
    told = {(one.span, one.message) for one in errors}
    more = (one for one in proof.diagnostics if (one.span, one.message) not in told)
    return Proved(text, proof, (*errors, *more))


def unknown_steps(plan: Plan, approved: Iterable[str]) -> tuple[Diagnostic, ...]:
    """CFG010 for each approved step that the plan does not have."""
    ids = [step.id for step in plan.steps]
    return tuple(_unknown(given, ids) for given in approved if given.removesuffix(WHETHER) not in ids)


def _unknown(given: str, ids: list[str]) -> Diagnostic:
    hint = meant(given, ids, None)
    message = f"the approved step {given[:40]!r} is not in the plan"
    return Diagnostic("CFG010", Severity.ERROR, message, help=hint)


# ---------------------------------------------------------------- predictions


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """The assumptions of a prediction: variables, results of steps, a price, approvals, a policy."""

    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """The variables of the run, including the parameters of a stored plan."""
    assume: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """Assumed results, by step id."""
    price: float | None = None
    """The price of a million prompt tokens."""
    worlds: bool = False
    """Whether it is also told what is changed with each condition true and false."""
    asks_servers: bool = False
    """Whether MCP servers are started to list their tools."""
    approve: Iterable[str] = ()
    """The tools that need approval, besides those of the settings."""
    policy: Policy | None = None
    approved: Iterable[str] = ()
    """The ids of steps that a person has approved."""
    secrets: tuple[str, ...] = ()
    """The names of variables whose values are secret."""
    is_recorded: bool = True
    """Whether the run would have a journal."""
    journal: Path | None = None
    """The journal beside which the labels of files from earlier runs are stored; None ignores them."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a plan would do; `ok` is False if the policy refuses it.

    `not_asked` names the servers that were not queried for unknown tools; None if there are none.
    """

    text: PlanText
    dry_run: DryRun
    diagnostics: tuple[Diagnostic, ...]
    not_asked: str | None
    ok: bool
    tells_worlds: bool = False

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """The warnings, without those about unknown tools, which `absent` counts."""
        return tuple(d for d in self.diagnostics if d.code != _NOT_HERE and not d.is_error)

    @property
    def absent(self) -> str:
        """A sentence with the number of calls of unknown tools; empty if no server was left out."""
        if self.not_asked is None:
            return ""
        count = sum(d.code == _NOT_HERE for d in self.diagnostics)
        calls = f"{count} call{'s' if count != 1 else ''}"
        return f"{calls} of unknown tools, and {self.not_asked} was not asked"

    def to_text(self, columns: int) -> str:
        """The prediction as text, `columns` wide."""
        told = f"dry run of {escaped(self.text.source.name)}\n{self.dry_run.to_text(columns)}"
        if not self.tells_worlds:
            return told
        return "\n".join((told, "", "what is changed in each case:", *self.dry_run.worlds().lines()))

    def to_json(self) -> PredictionResult:
        """The prediction and the diagnostics, as data."""
        rows = diagnostic_rows(self.diagnostics, self.text.source, named=True)
        data: dict[str, Any] = {"ok": self.ok, "plan": self.text.source.name, **self.dry_run.to_json()}
        if self.tells_worlds:
            data["worlds"] = self.dry_run.worlds().to_json()
        return cast("PredictionResult", {**data, "diagnostics": rows})


def predict(text: PlanText, declared: DeclaredTools, options: PredictionOptions) -> Prediction:
    """Predict what a plan would do; raises CallsheetError with all errors of a plan that would not run."""
    inputs, plan = options.inputs, text.plan
    checked, registry, not_asked = check_with(text, declared, inputs, asks_servers=options.asks_servers)
    if plan is None or not checked.ok:
        errors = checked.diagnostics if plan is None else checked.diagnostics[len(text.diagnostics) :]
        raise CallsheetError(errors, text.source)
    plan = with_inverses(plan, registry)
    facts = facts_of(plan, registry, agents=declared.setup.agents)
    asks = either(declared.setup.settings.approve, options.approve)
    dry_run = dry_run_of(plan, facts, inputs, options.assume, asks, options.price, source=text.source)
    if options.policy is None:
        return Prediction(text, dry_run, checked.diagnostics, not_asked, True, options.worlds)
    unknown = unknown_steps(plan, options.approved)
    if unknown:
        found = (*checked.diagnostics, *unknown)
        return Prediction(text, dry_run, found, not_asked, False, options.worlds)
    journal, policy = options.journal, text.under(options.policy)
    assumed = Assumptions(
        inputs=tuple(inputs),
        labels=labels_of_inputs(policy, options.secrets, ()),
        approved=tuple(options.approved),
        can_ask=options.is_recorded,
        left=left_before(journal, declared.setup.folder) if journal is not None else NOTHING_LEFT,
    )
    proof = prove(plan, policy, registry, assumed, not_asked=not_asked)
    proof = proof.under(guarantees_of(declared.setup, registry, keeps_labels=options.is_recorded))
    diagnostics = (*checked.diagnostics, *proof.diagnostics)
    return Prediction(text, dry_run.under(proof), diagnostics, not_asked, proof.ok, options.worlds)
