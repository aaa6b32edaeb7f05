"""The plain workflow beside which plans on Temporal are measured: one activity after another."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

HEARTBEAT = 30.0
FIRST = "x"


def added(text: str, number: int) -> str:
    """The work of each call."""
    return f"{text[-40:]}{number}"


@activity.defn
async def add(text: str, number: int) -> str:
    """The activity."""
    return added(text, number)


@workflow.defn
class Plain:
    """The workflow."""

    @workflow.run
    async def run(self, steps: int) -> str:
        """Await one activity after another."""
        text = FIRST
        for number in range(steps):
            text = await workflow.execute_activity(
                add,
                args=[text, number],
                start_to_close_timeout=timedelta(minutes=5),
                heartbeat_timeout=timedelta(seconds=HEARTBEAT),
            )
        return text
