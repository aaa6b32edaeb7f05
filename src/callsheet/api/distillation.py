"""Makes a plan of what models did in recorded runs, and verifies it against the recorded answers of tools.

In: recorded runs of one job, sessions or transcripts of agents. Out: the text of a Python plan with its
inputs, which was run and made the calls of each again; or CallsheetError (RUN091, RUN092).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callsheet.api.evidence import Answer, Evidence, Listener
from callsheet.authoring.distillation.patterns import MOST_STEPS
from callsheet.authoring.distillation.plan_text import DistilledPlan
from callsheet.authoring.distillation.recorded_calls import (
    RecordedCall,
    RecordedWork,
    work_in,
)
from callsheet.authoring.distillation.scopes import MOST_ITEMS
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect
from callsheet.store import Journal
from callsheet.store.start import Start

_MOST_CALLS = 2_000


@dataclass(frozen=True, slots=True)
class Distillation:
    """A plan that repeats what a model did: its text and inputs, the calls in it, and all that were made.

    `runs` is how many recorded runs it repeats.
    """

    plan: DistilledPlan
    calls: tuple[RecordedCall, ...]
    work: RecordedWork
    runs: int = 1

    @property
    def left_out(self) -> list[str]:
        """The tools of the calls that gave nothing to the end, by their number."""
        kept = {call.place for call in self.calls}
        return [call.tool for call in self.work.calls if call.place not in kept]


def recorded(journal: Journal, run_id: str) -> tuple[RecordedWork, dict[str, Effect], str]:
    """What a model did in a run, the effects of the tools, and the id of the run.

    Raises CallsheetError (RUN090) for a run without calls of a model, JournalError if it cannot be read.
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
    return work, {name: fact.effect for name, fact in facts.items()}, f"run {info.run_id}"


async def distil_all(
    works: Sequence[RecordedWork],
    effects: Mapping[str, Effect],
    names: Sequence[str],
    answer: Answer | None = None,
    listener: Listener = lambda said: None,
) -> Distillation:
    """The plan of recorded runs of one job, which repeats each of them; `names` say whose they are.

    What the first leaves open the others decide, and then `answer`, if there is one: it is asked which
    reading is meant. `listener` is told what is looked for. Raises CallsheetError: RUN092 if nothing repeats
    all runs, or two are the same, RUN091 if the plan does not repeat the only one; for a run that is too long
    or too deep, either.
    """
    about = f"What {' and '.join(names)} did, as a plan."
    for number, work in enumerate(works):
        if work in works[:number]:
            again = names[works.index(work)]
            raise CallsheetError.single(
                "RUN092",
                f"{names[number]} is the same as {again}: it decides nothing",
                help="name runs of the job with other data",
            )
    code = "RUN091" if len(works) == 1 else "RUN092"
    for work, name in zip(works, names, strict=True):
        if len(work.calls) > _MOST_CALLS:
            what = (
                f"{name} has {len(work.calls):,} calls, of which {_MOST_CALLS:,} at most are looked through"
            )
            raise CallsheetError.single(code, what, help="record the job with less data")
    try:
        found = await Evidence(works, effects, about, listener).plan(answer)
    except RecursionError:
        raise CallsheetError.single(
            code,
            "a value of the recorded calls is nested too deep to be looked through",
            help="record the job with results that are less deep",
        ) from None
    if isinstance(found, list) and len(works) == 1:
        missed = next((" ".join(one) for one in found if any(one)), "")
        raise CallsheetError.single(
            "RUN091",
            f"no plan repeats the run: {missed or 'the order of its calls'} is not explained",
            help=_too_long(works, names, is_ordered=bool(missed))
            or "record the job once more, with other data, and distil both runs",
        )
    if isinstance(found, list):
        missed = next((f": {' '.join(one)} is not explained" for one in found if any(one)), "")
        raise CallsheetError.single(
            "RUN092",
            f"no reading of one run makes the calls of the others{missed}",
            help=_too_long(works, names, is_ordered=bool(missed)) or await _way_out(works, effects, names),
        )
    made, first = found
    return Distillation(made.plan, (*made.calls,), first, len(works))


def _too_long(works: Sequence[RecordedWork], names: Sequence[str], *, is_ordered: bool) -> str:
    """What to do about the first list in which nothing is looked for, or too many calls; "" if all is short.

    `is_ordered` is whether calls and loops were found, so that their number is not at fault.
    """
    for work, name in zip(works, names, strict=True):
        if not is_ordered and len(work.calls) > MOST_STEPS:
            return (
                f"{name} has {len(work.calls):,} calls; of more than {MOST_STEPS} that no loop makes "
                "there is no plan: record a shorter job"
            )
        for call in work.calls:
            waiting: list[tuple[str, JSON]] = [("", call.result)]
            while waiting:
                place, value = waiting.pop()
                if isinstance(value, list) and len(value) > MOST_ITEMS:
                    where = f"{place} of " if place else ""
                    return (
                        f"{where}the result of {call.tool} in {name} is a list of {len(value):,} items; "
                        f"what is used of more than {MOST_ITEMS:,} is not found: take shorter ones"
                    )
                if isinstance(value, dict):
                    waiting += [(f"{place}.{key}", each) for key, each in value.items()]
                elif isinstance(value, list):
                    waiting += [(f"{place}.{number}", each) for number, each in enumerate(value)]
    return ""


async def _way_out(works: Sequence[RecordedWork], effects: Mapping[str, Effect], names: Sequence[str]) -> str:
    """What to do with runs that no plan repeats: which of them gives one by itself, with the least open."""
    alone: list[tuple[int, str]] = []
    for work, name in zip(works, names, strict=True):
        made = await Evidence([work], effects, "").plan()
        if not isinstance(made, list):
            alone.append((len(made[0].plan.unexplained), name))
    record = "record one more whose request has the same words, with other data"
    if not alone:
        return f"none of the runs gives a plan by itself; {record}"
    least, name = min(alone)
    count = "nothing" if not least else f"{least} input{'' if least == 1 else 's'}"
    return f"{record}; or distil {name} alone: its plan leaves {count} unexplained"
