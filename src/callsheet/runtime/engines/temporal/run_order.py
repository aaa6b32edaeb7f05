"""The order that starts a Temporal run: it includes the plan, so that nobody can edit it under a live run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.store.start import Start

WORKFLOW = "PlanRun"
"""The type of the workflow that drives a plan."""
CARRY_OUT = "carry_out"
CARRY_OUT_ONCE = "carry_out_once"
"""The activity of a call that must not be repeated: it tells the server before the call is sent."""
HAPPENED, PAST = "happened", "past"
"""The keys of a run's result for the rows of its events, and for the digests of those of past histories."""
UNSENT = "CallNotSent"
"""The type of the failure of such an activity that ended before it sent its call."""
"""The type of the activity that makes one call."""
KEEP = "keep_past"
"""The type of the activity that stores past events before a run continues in a new history."""
MEMO = "callsheet"
"""The memo field that says whether a run is `RUNNING` or, if only people can continue it, `RESTING`."""
RUNNING, RESTING = "running", "resting"
PLANS = "callsheet"
TOOLS = "-tools"
MODELS = "-models"
SECRETS = "secrets"
"""The key in a run's start note for the secrets that its workers substitute."""
_FORMAT = 1


class RunOrder(NamedTuple):
    """A run to be carried out; its `start` is the journal's start event, as for a local run.

    `queue` is the task queue of the workflow, from which those for calls of tools and models are derived. A
    worker without a heartbeat for `heartbeat` seconds counts as lost. After about `turn_over` events of a
    history the run continues in a new one. `rules` is the digest of the policy's blob, empty without a
    policy.
    """

    run_id: str
    plan: Plan
    source: str
    start: Start
    queue: str = PLANS
    heartbeat: float = 30.0
    core: str = MACHINE_VERSION
    turn_over: int = 10_000
    rules: str = ""

    @property
    def secrets(self) -> Mapping[str, str]:
        """Variables of the workers' environment by their placeholder text in the inputs."""
        return cast("Mapping[str, str]", self.start.launch.get(SECRETS, {}))

    @property
    def workflow_id(self) -> str:
        """The workflow id of the run."""
        return workflow_id(self.run_id)

    def to_json(self) -> dict[str, Any]:
        """The order as JSON data, the argument of the workflow."""
        return {
            "format": _FORMAT,
            "run_id": self.run_id,
            "plan": plan_to_json(self.plan),
            "source": self.source,
            "start": self.start.to_json(),
            "queue": self.queue,
            "heartbeat": self.heartbeat,
            "core": self.core,
            "turn_over": self.turn_over,
            **({"rules": self.rules} if self.rules else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an order from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        if data["format"] != _FORMAT:
            raise ValueError(f"an order of format {data['format']}, but this version reads {_FORMAT}")
        return cls(
            data["run_id"],
            plan_from_json(data["plan"]),
            data["source"],
            Start.from_json(data["start"]),
            data["queue"],
            data["heartbeat"],
            data["core"],
            data["turn_over"],
            data.get("rules", ""),
        )


def workflow_id(run_id: str) -> str:
    """The workflow id of a run, prefixed to keep apart from others on the server."""
    return f"callsheet-{run_id}"
