"""Prepares a plan for a run in a host: checks and proves it, and collects what the run starts with.

In: a request, shared tools. Out: the run's launch and warnings, or CallsheetError with all errors. Nothing is
recorded and no tool is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from callsheet.api.agents import wrong_tools
from callsheet.api.arguments import values_of
from callsheet.api.checking import check_plan, idle_inputs, idle_rules
from callsheet.api.proving import Assumptions, prove
from callsheet.api.requirements import facts_of, pins_of, servers_of
from callsheet.apps.guarantees import guarantees_of
from callsheet.apps.hosting.requests import RunRequest, tightened
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.models import RunModels, models_for_plan, with_local_model
from callsheet.apps.operations.library import bound, origin_note, other_tools
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, setup_of_run
from callsheet.diagnostics import CallsheetError, Diagnostic, did_you_mean
from callsheet.ir import JSON, OnInDoubt, Plan, plan_hash
from callsheet.machine import Limits
from callsheet.machine.approvals import approval_rules
from callsheet.passes.verify import NOTHING_LEFT
from callsheet.planning.checkpoints import read_checkpoint
from callsheet.policy.model import Policy
from callsheet.runtime.forking import HOST
from callsheet.runtime.launch import Launch
from callsheet.runtime.offloading import Offload
from callsheet.runtime.remaining import left_before
from callsheet.sealing.known import Known
from callsheet.store.start import secret_labels


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to begin: its plan, its launch, the secrets of its tools, warnings.

    `done` are the results of steps that another program has completed, None for a run from the start.
    """

    plan: Plan
    launch: Launch
    known: Known
    diagnostics: tuple[Diagnostic, ...] = ()
    done: Mapping[str, JSON] | None = None
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The settings common to all runs of a host: tools, limits, policy, and where log messages go."""

    tools: SharedTools
    limits: Limits
    policy: Policy | None
    say: Callable[[str], None]
    beside: Offload
    journal: Path | None = None
    """The journal, and the labels of the files that runs write beside it."""
    name: str = ""
    """The host's name, recorded with its runs so that a later host of that name can resume them."""


async def prepare(request: RunRequest, config: HostConfig) -> Prepared:
    """Check and prove the plan of a request; raises CallsheetError, including PolicyRefused."""
    plan = request.text.require()
    given, done = values_of(request.inputs), None
    if request.state is not None:
        state = request.state
        done, recorded = await config.beside(lambda: read_checkpoint(state, plan))
        given = {**recorded, **given}
    inputs = bound(request.text, given, ())
    limits = _limits(request, config.limits)

    def looked_at() -> tuple[Setup, RunModels, Plan | None]:
        setup = with_local_model(config.tools.setup, config.say, plan)
        asked = models_for_plan(setup, plan, limits)
        return setup, asked, None if asked.may_call_any_tool(plan) else plan

    setup, asked, needed = await config.beside(looked_at)
    toolbox = await config.tools.for_plan(needed, asked.agents)
    policy = _policy(request, config)
    terms = _Given(request, inputs, limits, setup, policy, config.name, config.journal)
    prepared = await config.beside(lambda: _prepared(terms, toolbox, asked))
    return replace(prepared, done=done, workspace=toolbox.workspace)


class _Given(NamedTuple):
    """The part of a launch that does not depend on tools."""

    request: RunRequest
    inputs: dict[str, JSON]
    limits: Limits
    setup: Setup
    policy: Policy | None
    host: str
    journal: Path | None


def _prepared(given: _Given, toolbox: Toolbox, asked: RunModels) -> Prepared:
    request, inputs, limits, setup, *_ = given
    plan, registry, agents = request.text.require(), toolbox.registry, asked.agents
    warnings = _check(given, toolbox, asked)
    policy, findings = _proved(given, toolbox)
    on_in_doubt = request.on_in_doubt or setup.settings.on_in_doubt
    servers = servers_of(plan, registry, toolbox.servers, agents, policy) if toolbox.servers else {}
    launch = Launch(
        facts=facts_of(plan, registry, OnInDoubt(on_in_doubt), agents),
        pins=pins_of(plan, registry, agents),
        inputs=inputs,
        limits=limits,
        source=request.text.source.text,
        approve=approval_rules((*setup.settings.approve, *request.approve)),
        approval_timeout={**setup.settings.approval_timeouts(), **request.approval_timeout},
        note={
            "plan": request.text.source.name,
            "setup": setup_of_run(setup, toolbox).to_note(),
            **({"servers": servers} if servers else {}),
            **origin_note(request.text),
            **({HOST: given.host} if given.host else {}),
        },
        policy=policy,
        verified="" if policy is None else plan_hash(plan),
        secret=request.secrets,
    )
    return Prepared(plan, launch, toolbox.known, (*warnings, *findings))


def _limits(request: RunRequest, own: Limits) -> Limits:
    try:
        return tightened(own, request.limits)
    except (TypeError, ValueError) as error:
        raise CallsheetError.single("CFG011", f"the limits cannot be used: {error}") from error


def _policy(request: RunRequest, config: HostConfig) -> Policy | None:
    if config.policy is None:
        return request.policy
    if request.policy is not None:
        raise CallsheetError.single(
            "API020",
            f"all runs of this server are under the policy {config.policy.name}, but the request names one",
            help="omit the policy; the operator of the server sets it",
        )
    return config.policy


def _check(given: _Given, toolbox: Toolbox, asked: RunModels) -> tuple[Diagnostic, ...]:
    """The warnings and hints about a plan; raises CallsheetError for one with errors."""
    request, inputs, _, setup, *_ = given
    plan, registry = request.text.require(), toolbox.registry
    unknown = sorted(request.secrets - inputs.keys())
    if unknown:
        raise CallsheetError.single("CFG011", f"{unknown[0]} is named as a secret, but has no value")
    own = set(approval_rules(setup.settings.approve))
    found = (
        *toolbox.diagnostics,
        *check_plan(plan, registry, inputs, not_asked=toolbox.not_asked, providers=asked.providers),
        *wrong_tools(plan, registry, asked.agents),
        *other_tools(request.text, toolbox.registry, is_accepted=request.accepts_changed_tools),
        *idle_inputs(plan, inputs),
        *idle_rules(plan, set(approval_rules(request.approve)) - own),
    )
    if any(d.is_error for d in found):
        raise CallsheetError(found, request.text.source)
    return (*request.text.diagnostics, *found)


def _proved(given: _Given, toolbox: Toolbox) -> tuple[Policy | None, tuple[Diagnostic, ...]]:
    """Prove the plan; returns the bound policy and its warnings."""
    request, inputs, _, setup, policy, _, journal = given
    plan, source = request.text.require(), request.text.source
    _check_approved(plan, request.approved, policy)
    if policy is None:
        return None, ()
    labels = secret_labels(policy, request.secrets)
    left = NOTHING_LEFT if journal is None else left_before(journal, setup.folder)
    assumed = Assumptions(inputs=inputs, labels=labels, approved=request.approved, left=left)
    proof = prove(plan, policy, toolbox.registry, assumed)
    proof = proof.under(guarantees_of(setup, toolbox.registry))
    proof.raise_if_refused(source)
    return proof.policy, tuple(proof.diagnostics)


def _check_approved(plan: Plan, approved: tuple[str, ...], policy: Policy | None) -> None:
    ids = [step.id for step in plan.steps]
    for given in approved:
        if policy is None:
            raise CallsheetError.single("CFG011", "steps are approved, but no policy requires approval")
        if given not in ids:
            near = did_you_mean(given, ids)
            hint = f"did you mean {' or '.join(near)}?" if near else None
            raise CallsheetError.single("CFG011", f"the plan has no step {given[:40]!r}", help=hint)
