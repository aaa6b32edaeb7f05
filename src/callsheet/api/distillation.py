"""Makes a plan from a recorded session or agent, and verifies it against the recorded answers of the tools.

In: a journal and the id of a run. Out: the text of a Python plan with its inputs, which was run and made the
recorded calls again; or CallsheetError (RUN090, RUN091).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.api.oneshot import arun
from callsheet.api.plan import Plan
from callsheet.authoring.distillation.plan_text import DistilledPlan, plans
from callsheet.authoring.distillation.recorded_calls import (
    RecordedCall,
    RecordedWork,
    slice_of,
    work_in,
    work_in_transcript,
)
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec
from callsheet.store import Journal
from callsheet.store.start import Start


@dataclass(frozen=True, slots=True)
class Distillation:
    """A plan that repeats what a model did: its text and inputs, the calls in it, and all that were made."""

    plan: DistilledPlan
    calls: tuple[RecordedCall, ...]
    work: RecordedWork

    @property
    def left_out(self) -> list[str]:
        """The tools of the calls that gave nothing to the end, by their number."""
        kept = {call.place for call in self.calls}
        return [call.tool for call in self.work.calls if call.place not in kept]


async def distil(journal: Journal, run_id: str) -> Distillation:
    """The plan of a run, verified: with the recorded inputs and answers it makes the recorded calls again.

    Raises CallsheetError: RUN090 for a run without calls of a model, RUN091 if the plan does not repeat them,
    JournalError if the run cannot be read.
    """
    info = journal.find_run(run_id)
    events = [*journal.events(info.run_id)]
    work = work_in(events)
    if not work.calls:
        raise CallsheetError.single(
            "RUN090",
            f"run {info.run_id} has no calls that a model made",
            help="name the run of a gate's session, or one with @AGENT_SOLVE; `callsheet runs` lists them",
        )
    facts = Start.from_json(events[0].body or {}).facts
    effects = {name: fact.effect for name, fact in facts.items()}
    return await _distilled(work, effects, f"What run {info.run_id} did, as a plan.")


async def distil_transcript(text: str, name: str) -> Distillation:
    """The plan of a transcript of an agent, or of a trace with tool calls, verified as that of a run.

    Which tools only read is told by their names. Raises CallsheetError as `distil`.
    """
    work = work_in_transcript(text, name)
    return await _distilled(work, {}, f"What the agent in {name} did, as a plan.")


async def _distilled(work: RecordedWork, effects: dict[str, Effect], about: str) -> Distillation:
    needed = slice_of(work.calls, effects, work.said)
    failure: CallsheetError | None = None
    for plan, calls in plans(needed, work.calls, work.said, about, effects):
        try:
            await _verify(plan, calls, effects)
        except CallsheetError as error:
            failure = failure or error
        else:
            return Distillation(plan, tuple(calls), work)
    raise failure or AssertionError("there is a plan of any calls")


async def _verify(plan: DistilledPlan, calls: Sequence[RecordedCall], effects: dict[str, Effect]) -> None:
    """Run a plan on the recorded answers; raises CallsheetError (RUN091) if it makes other calls."""
    made: list[tuple[str, str]] = []
    answers: dict[tuple[str, str], deque[JSON]] = {}
    for call in calls:
        answers.setdefault(_key(call.tool, call.args), deque()).append(call.result)

    def replayed(name: str) -> Tool:
        async def answer(args: dict[str, Any], context: CallContext) -> JSON:
            key = _key(name, args)
            made.append(key)
            if not answers.get(key):
                raise ToolFailed(f"the recorded run made no such call: {key[1]}")
            return answers[key].popleft()

        given = dict.fromkeys(arg for call in calls if call.tool == name for arg in call.args)
        schema: dict[str, Any] = {"type": "object", "properties": {arg: {} for arg in given}}
        effect = effects.get(name, Effect.UNSAFE)
        return Tool(ToolSpec(name, name.lower(), "", schema, effect=effect), answer)

    read = Plan.parse(plan.text, name="the distilled plan", syntax="python")
    result = await arun(read, plan.inputs, tools=[replayed(name) for name in {call.tool for call in calls}])
    if result.error is None and made == [_key(call.tool, call.args) for call in calls]:
        return
    raise CallsheetError.single(
        "RUN091",
        f"the plan does not repeat the run: {result.error or 'its calls come in another order'}",
        help="this is a gap in callsheet; please report the shape of the run",
    )


def _key(tool: str, args: dict[str, Any]) -> tuple[str, str]:
    return tool, json.dumps(args, sort_keys=True, ensure_ascii=False)
