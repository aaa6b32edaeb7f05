"""Checks before a run that the runtime's settings meet the obligations that a proof relies on.

In: the obligations of a proof, the policy, the settings of the built-in tools. Out: diagnostics for unmet
ones: an error if the settings contradict it, a warning if it depends on a tool that is not built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Call, CallKind, Goto, Plan, Replan, Respond, Step, Terminate
from callsheet.passes.verify.places import CODE
from callsheet.policy.addresses import AllowedHosts
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Duty, Obligation
from callsheet.policy.model import Policy
from callsheet.ports.builtin import ExecutionSettings, FetchSettings
from callsheet.ports.tools import Registry

_BUILTIN = "builtin"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a runtime guarantees: how it fetches pages and runs code, and whether labels outlive a run.

    `workspace` is the folder of the file tools. `files` are the absolute paths of the files that configure
    the runtime; no call under a policy may write them.
    """

    registry: Registry
    fetch: FetchSettings | None = None
    execution: ExecutionSettings | None = None
    keeps_labels: bool = True
    workspace: str = ""
    files: tuple[str, ...] = ()


def unmet(
    obligations: Iterable[Obligation], plan: Plan, policy: Policy, guarantees: Guarantees
) -> tuple[Diagnostic, ...]:
    """Diagnostics for the obligations that are not met; an error among them refuses the plan."""
    diagnostics: dict[Diagnostic, None] = {}
    if (
        guarantees.execution is not None
        and guarantees.execution.workspace == "read"
        and not _knows_code(policy)
    ):
        for step in plan.steps:
            if _may_run_code(step, policy):
                diagnostics[replace(_SEES_FILES, span=step.action.span or step.span, step=step.id)] = None
    for obligation in obligations:
        for diagnostic in _unmet(obligation, policy, guarantees):
            step = plan.step(obligation.step)
            span = None if step is None else step.action.span or step.span
            diagnostics[replace(diagnostic, span=span, step=obligation.step)] = None
    return tuple(diagnostics)


def _may_run_code(step: Step, policy: Policy) -> bool:
    """Whether a step runs code, directly or through an agent or a re-plan."""
    match step.action:
        case Call(kind=CallKind.AGENT):
            return policy.agent is not None and not CODE.isdisjoint(map(fold, policy.agent.tools))
        case Call(tool=tool):
            return fold(tool) in CODE
        case Replan():
            return policy.replan is not None
        case Respond() | Terminate() | Goto():
            return False


def _knows_code(policy: Policy) -> bool:
    """Whether the policy describes what code returns."""
    named = (*policy.tools, *(rule.pattern for rule in policy.sources if rule.kind == "tool"))
    return not CODE.isdisjoint(map(fold, named))


_SEES_FILES = Diagnostic(
    "POL121",
    Severity.ERROR,
    'code can read the workspace here (workspace = "read"), and the proof assumes that it reads no files',
    help="hide the workspace and pass data on stdin, or declare in the policy what code returns",
)


def _unmet(obligation: Obligation, policy: Policy, guarantees: Guarantees) -> Iterator[Diagnostic]:
    match obligation.kind:
        case Duty.SSRF_GUARD:
            tool = guarantees.registry.get(obligation.tool)
            if tool is not None and tool.spec.origin != _BUILTIN:
                yield _of_another(obligation, "reaches only public addresses")
            elif guarantees.fetch is not None:
                yield from map(_private_host, untrusted_hosts(policy, guarantees.fetch))
        case Duty.SANDBOX:
            tool = guarantees.registry.get(obligation.tool)
            if tool is not None and tool.spec.origin != _BUILTIN:
                yield _of_another(obligation, "runs code without a network")
            elif guarantees.execution is not None and (
                guarantees.execution.network or guarantees.execution.require != "sandbox"
            ):
                yield _network()
        case Duty.STORE_LABEL:
            if obligation.weakens and not guarantees.keeps_labels:
                yield _forgets(obligation)
        case Duty.VERIFY_AGAIN | Duty.APPROVE:
            pass  # always met: the gateway proves new plans, the machine judges each call and asks


def untrusted_hosts(policy: Policy, fetch: FetchSettings) -> list[str]:
    """The entries of `allow_private_hosts` that are in no audience of the policy."""
    known = AllowedHosts.parse(host for audience in policy.audiences for host in audience.hosts)
    return [entry for entry in fetch.allow_private_hosts if not _covers(known, entry)]


def _covers(known: AllowedHosts, entry: str) -> bool:
    """Whether every host that a configuration entry matches belongs to an audience."""
    name = entry.strip().lower().removesuffix(".")
    if name == "*":
        return known.everything
    try:
        network = ip_network(name.strip("[]"), strict=False)
    except ValueError:
        if name.startswith("*."):
            return known.everything or f"x{name[1:]}".endswith(known.suffixes)
        return known.allow_name(name)
    return any(
        network.version == other.version and network.subnet_of(other)  # pyright: ignore[reportArgumentType]
        for other in known.networks
    )


def _private_host(entry: str) -> Diagnostic:
    return Diagnostic(
        "POL118",
        Severity.ERROR,
        f"the configuration allows fetching from {entry}, which no audience of the policy has",
        help="remove it from allow_private_hosts, or add it to an audience of the policy",
    )


def _of_another(obligation: Obligation, what: str) -> Diagnostic:
    return Diagnostic(
        "POL119",
        Severity.WARNING,
        f"the proof assumes that @{obligation.tool} {what}, and this is not the built-in tool",
        help="make sure that it does",
    )


def _network() -> Diagnostic:
    return Diagnostic(
        "POL010",
        Severity.ERROR,
        "the policy requires a sandbox without a network for code, which is not guaranteed here",
        help="remove --allow-unsandboxed, or declare in the policy that code reaches the network",
    )


def _forgets(obligation: Obligation) -> Diagnostic:
    return Diagnostic(
        "POL120",
        Severity.ERROR,
        f"data with the label {obligation.detail} would be stored where later runs assume a less strict "
        "label",
        help="record the run in a journal: labels are stored beside it",
    )
