"""The same tasks call by call: what a person is asked if an agent makes the calls of a task one by one.

In: a task, the policy of its suite. Out: the calls that its authors expect, made through a session of the
gate, which knows what the user has said, and every question answered yes. What a client asks that has no
policy is the number of those calls: it asks about each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from benchmarks.agentdojo.worlds import Task

from callsheet import Answer, Journal
from callsheet.apps.gate.session import Asked, Session, Told, Withheld
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox
from callsheet.ir import canonical_tool_name
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry


@dataclass(frozen=True)
class CallByCall:
    """What became of a task: its calls, the questions about them, those that were refused."""

    calls: int
    asked: int
    refused: int
    is_right: bool


async def call_by_call(task: Task, policy: Policy) -> CallByCall:
    """Make the expected calls of a task in a session, with every question answered yes."""
    world = task.world()
    calls = task.calls(task.world().env)
    asked = refused = 0
    with TemporaryDirectory() as folder:
        place = Path(folder)
        registry = Registry(world.tools())
        names = tuple(canonical_tool_name(call.tool) for call in calls)
        setup = Setup(workspace=place, data=place, discovers=False)
        with Journal.open(place / "runs.db") as journal:
            opened = Toolbox(registry, workspace=str(place))
            begun = Session("agent", setup, opened, names, journal, limits=Limits(), policy=policy)
            async with begun as session:
                session.tell(Told(said=(task.goal,)))
                for name, call in zip(names, calls, strict=True):
                    made, reply = await session.call(name, dict(call.args))
                    if isinstance(reply, Asked):
                        asked += 1
                        made.answer.set_result(Answer.approve())
                        reply = await session.reply(made)
                    refused += isinstance(reply, Withheld)
    return CallByCall(len(calls), asked, refused, task.is_right(world, task.answer))


def told(rows: list[CallByCall], in_programs: list[int]) -> str:
    """The questions of all tasks beside those of their programs, in a paragraph."""
    counts = [row.calls for row in rows]
    several = [(row, one) for row, one in zip(rows, in_programs, strict=True) if row.calls > 3]
    asked = [row.asked for row in rows]
    return "\n".join(
        (
            f"call by call, a client that asks about each: {mean(counts):.2f} questions a task, median "
            f"{median(counts):g}, most {max(counts)}",
            f"call by call, a session under the policy: {mean(asked):.2f}, median {median(asked):g}, most "
            f"{max(asked)}; {sum(row.refused > 0 for row in rows)} tasks with refused calls, "
            f"{sum(row.is_right for row in rows)} of {len(rows)} right",
            f"as programs: {mean(in_programs):.2f}, median {median(in_programs):g}, most {max(in_programs)}; "
            f"of the {len(several)} tasks with 4 calls and more: median "
            f"{median(row.calls for row, _ in several):g} against {median(one for _, one in several):g}",
        )
    )
