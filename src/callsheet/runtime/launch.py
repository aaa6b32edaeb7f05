"""The parameters of a run besides its plan and ports, and its observers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Order, Plan, plan_hash
from callsheet.ir.graphs import Precedence
from callsheet.lazy import dataclass
from callsheet.machine import Limits, Program, ToolFacts
from callsheet.machine.limits import bounded
from callsheet.machine.machine import Observer
from callsheet.machine.program import compile_graph
from callsheet.machine.schedule import ranks_of
from callsheet.policy.model import Policy
from callsheet.runtime.local import LocalDriver, Pace
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import Journal, JournalError
from callsheet.store.start import Start, labels_of_inputs

if TYPE_CHECKING:
    from callsheet.machine import Enforcement

_MOST_STEPS = 10_000


def ranks_for(journal: Journal, plan: Plan, limits: Limits) -> dict[str, int]:
    """The ranks of the steps by id; empty for a plan without a choice, without a previous run, or too large.

    Steps without a known duration count as the mean of the others. Raises CallsheetError (RUN001) for a graph
    that cannot be run, JournalError if the journal cannot be read.
    """
    count = len(plan.steps)
    if plan.order is not Order.DAG or not limits.max_concurrency < count <= _MOST_STEPS:
        return {}
    if max(map(len, Precedence.of(plan).levels()), default=0) <= limits.max_concurrency:
        return {}
    took = journal.step_seconds(plan_hash(plan))
    if not took:
        return {}
    usual = sum(took.values()) / len(took)
    seconds = [took.get(step.id, usual) for step in plan.steps]
    ranks = ranks_of(compile_graph(plan), seconds, limits.max_concurrency)
    return {step.id: rank for step, rank in zip(plan.steps, ranks, strict=True)}


@dataclass(frozen=True, slots=True)
class Launch:
    """The parameters of a run besides its plan and its ports.

    `facts` and `pins` describe the tools that the plan calls; `note` is kept with the run for the interface
    that started it. `source` is the text of the plan. A person must approve each call of a tool in `approve`;
    `approval_timeout` are the seconds to wait for approval, by tool ("" for all others). `program` is the
    plan compiled with these facts, if that has been done. Under a `policy` each call is judged, and only the
    plan with the hash `verified` may run.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    limits: Limits = field(default_factory=Limits)
    source: str = ""
    note: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    program: Program | None = None
    policy: Policy | None = None
    verified: str = ""
    secret: frozenset[str] = frozenset()
    """The names of secret inputs: sealed wherever they occur, and under a policy readable by nobody."""
    untrusted: frozenset[str] = frozenset()
    """The names of inputs that somebody else than the run's user has chosen, which a policy labels so."""

    @property
    def known(self) -> Known:
        """The secrets among the inputs."""
        if not self.secret:
            return Known()
        return Known.of([self.inputs[name] for name in sorted(self.secret) if name in self.inputs], DECLARED)

    @property
    def enforcement(self) -> Enforcement | None:
        """The enforcement of the policy; None without one."""
        if self.policy is None:
            return None
        from callsheet.machine import Enforcement  # noqa: PLC0415 - only under a policy

        return Enforcement.under(self.policy, labels_of_inputs(self.policy, self.secret, self.untrusted))

    def secret_parts(self) -> dict[Path, str]:
        """The secret parts of the body of the run's start event, by path."""
        if not self.secret and self.policy is None:
            return {}
        by_policy = self.policy is not None and self.policy.inputs.is_secret
        labelled = inputs_at(self.inputs, LABEL) if by_policy else {}
        pepper: dict[Path, str] = {("pepper",): _PEPPER} if self.secret else {}
        return labelled | inputs_at(sorted(self.secret), DECLARED) | pepper

    def check(self, plan: Plan) -> None:
        """Raise CallsheetError (RUN050) for a plan that was not verified under the policy."""
        if self.policy is not None and self.verified != plan_hash(plan):
            raise CallsheetError.single(
                "RUN050",
                "under a policy only the verified plan may run, but this is another plan",
                help="verify the plan as it is now, then run it",
            )


@dataclass(frozen=True, slots=True)
class Watch:
    """Observers of a run: `observer` gets each note once it is in the journal, `after_batch` is awaited after
    each batch.
    """

    observer: Observer | None = None
    after_batch: Callable[[], Awaitable[None]] | None = None
    on_driver: Callable[[LocalDriver], None] | None = None
    """Receives the driver before the run goes on, so that it can be cancelled."""
    on_decided: Callable[[], None] | None = None
    """Called instead if decisions on resumption end the run, before the observer hears of it."""
    on_declared: Callable[[Known], None] | None = None
    """On resumption, receives the secrets that the run was given, before any other notification."""
    pace: Pace | None = None
    """Decides when the machine goes on; it is then executed statement by statement."""
    hears_all: bool = True
    """Whether the observer of a resumed run hears of everything that has happened; the run is then folded
    from its start instead of its last snapshot.
    """


_PEPPER = "digests are made with it"


def start_of(plan: Plan, launch: Launch, journal: Journal) -> Start:
    """The first event of a run; raises CallsheetError (RUN050) as `start_run` does."""
    launch.check(plan)
    return Start(
        dict(launch.inputs),
        dict(launch.facts),
        bounded(launch.limits, launch.policy),
        dict(launch.pins),
        dict(launch.note),
        launch.approve,
        dict(launch.approval_timeout),
        ranks_for(journal, plan, launch.limits),
        launch.policy,
        tuple(sorted(launch.secret)),
        token_hex(16) if launch.secret else "",
        tuple(sorted(launch.untrusted)),
    )


class Offer(NamedTuple):
    """What a tool's name stands for: the pin of its declaration, empty without one, and its origin.

    `orderless_pin` is the pin in its first form. It does for a call with names for all arguments.
    """

    pin: str
    origin: str
    orderless_pin: str = ""


_OF_SERVER = "mcp:"
"""How the origin of a tool begins that an MCP server offers."""


def origin_change(tool: str, before: str | None, origin: str) -> str | None:
    """How the origin of a tool differs from that at the start, None if it does not.

    `before` is the server that offered it then, as `Start.server_of` gives it.
    """
    now = origin.removeprefix(_OF_SERVER) if origin.startswith(_OF_SERVER) else ""
    if before is None or now == before:
        return None
    then = f"was a tool of the MCP server {before!r}" if before else "came from no MCP server"
    source = f"from the MCP server {now!r}" if now else "from no MCP server"
    return f"@{tool} {then} at the start, and now comes {source}"


def check_pins(start: Start, pins: Mapping[str, str]) -> None:
    """Refuse to go on with tools whose declarations have changed since the start.

    Raises JournalError (JRN021) that names these tools.
    """
    changed = sorted(name for name, pin in start.pins.items() if name in pins and pins[name] != pin)
    if changed:
        raise JournalError(
            "JRN021",
            "the declaration of "
            + ", ".join(f"@{name}" for name in changed)
            + " has changed since the start",
            hint="review the changes (`callsheet tools`), then resume with --accept-changed-tools",
        )
