"""What a run is started with besides its plan and its ports, and who hears how it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.machine import (
    Enforcement,
    Limits,
    Program,
    ToolFacts,
)
from callsheet.machine.machine import Observer
from callsheet.policy.model import Policy
from callsheet.runtime.guard import bounded
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.ranks import ranks_for
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import Journal, JournalError
from callsheet.store.records import Start, secret_labels


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a run is started with besides its plan and its ports.

    `facts` and `pins` tell of the tools that the plan calls; `note` is kept with the run for
    the face that started it. `source` is the text of the plan. A person is asked before each call
    of a tool that `approve` names; `approval_timeout` has the seconds that there are for a yes, by tool
    ("" for all others). `program` is that of the plan with these facts, where it has been
    made before. Under a `policy` each call is held against it, and only the plan is run whose hash is
    `verified`.
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
    """The inputs that are secret: sealed wherever they stand, and under a policy read by nobody."""

    @property
    def known(self) -> Known:
        """The secrets among the inputs."""
        if not self.secret:
            return Known()
        return Known.of([self.inputs[name] for name in sorted(self.secret) if name in self.inputs], DECLARED)

    @property
    def enforcement(self) -> Enforcement | None:
        """What holds under the policy; None without one."""
        if self.policy is None:
            return None
        return Enforcement.under(self.policy, secret_labels(self.policy, self.secret))

    def secret_parts(self) -> dict[Path, str]:
        """The secret parts of the body of the run's start, by their place."""
        if not self.secret and self.policy is None:
            return {}
        by_policy = self.policy is not None and self.policy.inputs.is_secret
        labelled = inputs_at(self.inputs, LABEL) if by_policy else {}
        pepper: dict[Path, str] = {("pepper",): _PEPPER} if self.secret else {}
        return labelled | inputs_at(sorted(self.secret), DECLARED) | pepper

    def check(self, plan: Plan) -> None:
        """Raise CallsheetError (RUN050) for a plan that the policy was not held against."""
        if self.policy is not None and self.verified != plan_hash(plan):
            raise CallsheetError.single(
                "RUN050",
                "under a policy only the plan is run that was verified, and this is another one",
                help="verify the plan as it is now, then run it",
            )


@dataclass(frozen=True, slots=True)
class Watch:
    """Who wants to know how a run goes: each note once the journal has it, and a call after each batch."""

    observer: Observer | None = None
    after_batch: Callable[[], Awaitable[None]] | None = None
    on_driver: Callable[[LocalDriver], None] | None = None
    """Is given the driver before the run goes on, to be able to cancel it."""
    on_decided: Callable[[], None] | None = None
    """Is called instead where what is decided on resuming ends the run, before that is told."""
    on_declared: Callable[[Known], None] | None = None
    """Hears, when a run is resumed, of the secrets that it was given, before anything else is told."""
    hears_all: bool = True
    """Whether the observer of a resumed run hears of all that has happened; a long run is then folded
    from its start, where its last snapshot would do."""


_PEPPER = "digests are made with it"


def start_of(plan: Plan, launch: Launch, journal: Journal) -> Start:
    """What the first event of a run says; raises CallsheetError (RUN050) as `start_run` does."""
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
    )


def check_pins(start: Start, pins: Mapping[str, str]) -> None:
    """Refuse to go on with tools that are not those the run was started with.

    Raises JournalError (JRN021) that names the tools whose declaration changed.
    """
    changed = sorted(name for name, pin in start.pins.items() if name in pins and pins[name] != pin)
    if changed:
        raise JournalError(
            "JRN021",
            "the declaration of "
            + ", ".join(f"@{name}" for name in changed)
            + " is not what it was at the start",
            way_out="look at what changed (`callsheet tools`), then resume with --accept-changed-tools",
        )
