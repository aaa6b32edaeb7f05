"""What a run on Temporal is started with: the plan itself, so that nobody edits it under a live run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.machine.version import MACHINE_VERSION
from callsheet.store.records import Start

WORKFLOW = "PlanRun"
"""The type of the workflow that drives a plan."""
CARRY_OUT = "carry_out"
"""The type of the activity that makes one call."""
KEEP = "keep_past"
"""The type of the activity that lays down what has happened before a run goes on in a new history."""
MEMO = "callsheet"
"""Where a run says beside its history whether it is `RUNNING` or, as only people carry it on, `RESTING`."""
RUNNING, RESTING = "running", "resting"
PLANS = "callsheet"
TOOLS = "-tools"
MODELS = "-models"
SECRETS = "secrets"
"""Where the note of a run's face says which secrets its workers put in."""
_FORMAT = 1


class Order(NamedTuple):
    """A run to be carried out; with no `start` event of the journal it could not be told from a local one.

    `queue` is the task queue of the workflow; calls of tools and of models have queues of their own beside
    it. A worker that has not been heard of for `heartbeat` seconds is taken for dead. After about `turn_over`
    events of a history the run goes on in a new one. `rules` names the blob of the policy that the run is
    under, empty without one.
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
        """Variables of the workers' environment by the text that stands in their place in the inputs."""
        return cast("Mapping[str, str]", self.start.launch.get(SECRETS, {}))

    @property
    def workflow_id(self) -> str:
        """The name of the run on the server."""
        return workflow_id(self.run_id)

    def to_json(self) -> dict[str, Any]:
        """The order as JSON data, the one argument of the workflow."""
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
        """The order that data tells of; raises KeyError, TypeError or ValueError for data that is none."""
        if data["format"] != _FORMAT:
            raise ValueError(f"an order of format {data['format']}, and this version reads {_FORMAT}")
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
    """The name that a run has on the server, where others have theirs."""
    return f"callsheet-{run_id}"
