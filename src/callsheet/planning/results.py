"""The documented forms: the results of steps and plans, and the state file `ID_state.json`.

In: the text of such a file from another program, and its plan. Out: the result of each completed step, and
the inputs of the run. A file that does not fit the plan is refused as a whole (PLN028). The one that is
written is for other programs: here, runs are resumed from the journal.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.api.dryrun import DryRun
from callsheet.api.result import RunResult, StepResult
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.files import replace_file
from callsheet.frontends.dag import parse_dag
from callsheet.ir import JSON, Plan, executor_name
from callsheet.ir.graphs import Precedence
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine.forecasting import Fields, Foreseen, Items, Text, Unknown
from callsheet.passes import check
from callsheet.store.library.record import is_plan_id
from callsheet.views.terminal import StepStatus, terminal_levels


@dataclass(frozen=True, slots=True)
class StepExecutionResult:
    """The result of a step; `duration` is in seconds."""

    step_index: str
    step_title: str
    tool_name: str
    success: bool
    result: Any = None
    error: str | None = None
    duration: float = 0.0
    dry_run: bool = False

    @classmethod
    def of(cls, step: StepResult) -> StepExecutionResult:
        """The result in the documented form; a step skipped by its condition is a success."""
        skipped = step.was_skipped and not _never_ran(step)
        return cls(
            step.index,
            step.title,
            step.tool,
            step.success or skipped,
            step.value,
            None if step.success or skipped else step.error,
            step.seconds or 0.0,
        )


@dataclass(frozen=True, slots=True)
class PlanExecutionResult:
    """The result of a plan; `total_duration` is in seconds, `run_id` the id of the run in the journal."""

    plan_id: str
    plan_title: str
    success: bool
    steps: list[StepExecutionResult] = field(default_factory=list[StepExecutionResult])
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    total_duration: float = 0.0
    error: str | None = None
    replanned: bool = False
    run_id: str | None = None

    @classmethod
    def of(cls, plan: Plan, result: RunResult, seconds: float, *, is_recorded: bool) -> PlanExecutionResult:
        """The result in the documented form.

        After a re-plan, the steps are the completed ones of the first plan and the new ones. A step that did
        not run, because one that it depends on failed, is not among them.
        """
        first = {step.id for step in plan.steps} if result.replanned else set[str]()
        steps = [StepExecutionResult.of(step) for step in result.steps if not _never_ran(step)]
        return cls(
            plan.id or "",
            plan.title or "",
            result.ok,
            [step for step in steps if step.success or step.step_index not in first],
            result.variables,
            seconds,
            None if result.ok else (result.error or result.response or f"the run is {result.status}"),
            result.replanned,
            result.run_id if is_recorded else None,
        )

    @classmethod
    def foreseen(cls, plan: Plan, dry_run: DryRun, variables: dict[str, Any]) -> PlanExecutionResult:
        """The result of a dry run: each step, marked as such; placeholders stand for unknown results."""
        steps: list[StepExecutionResult] = []
        for foreseen in dry_run.forecast.steps:
            step = foreseen.step
            tool = executor_name(step.call.tool) if step.call is not None else ""
            stands_for = f"<{tool} result>"
            arguments = dict(foreseen.visits[0].arguments) if foreseen.visits else {}
            shown = {name: _plain(value) for name, value in arguments.items()}
            steps.append(
                StepExecutionResult(
                    step.id, step.title or "", tool, True, {"args": shown}, None, 0.0, dry_run=True
                )
            )
            if step.output is not None:
                variables[step.output.var] = stands_for
        return cls(plan.id or "", plan.title or "", True, steps, variables)


def _never_ran(step: StepResult) -> bool:
    """Whether a step was skipped because of a failure, and not by its condition."""
    return step.was_skipped and (step.error or "").endswith(" failed")


def _plain(value: Foreseen) -> Any:
    """A foreseen argument as data, with placeholders as texts."""
    match value:
        case Unknown():
            what, _, rest = str(value)[1:].partition(" ")
            return f"<{executor_name(what)} {rest}" if rest else str(value)
        case Text(parts=parts):
            return "".join(part if isinstance(part, str) else _plain(part) for part in parts)
        case Items(items=items):
            return [_plain(item) for item in items]
        case Fields(pairs=pairs):
            return {name: _plain(item) for name, item in pairs}
        case _:
            return value


def render_plan_dag(plan_data: Mapping[str, Any], status: Mapping[str, str] | None = None) -> str:
    """The plan as lines for a terminal; `status` maps the indexes of steps to their status.

    The words are `pending`, `running`, `completed` and `failed`; a step of the data may have its own under
    `status`. Raises CallsheetError for data that is not a plan.

    >>> row = {"index": "1", "title": "Ask", "tool": "ask", "args": {}, "depends_on": []}
    >>> print(render_plan_dag({"steps": [{**row, "status": "completed"}]}))
    ● 1. Ask  [ask]
    """
    text = json.dumps(plan_data, ensure_ascii=False, default=str)
    plan = parse_dag(text, "<plan>").require()
    statuses = {**_statuses(plan_data.get("steps")), **(status or {})}
    return terminal_levels(plan, {index: _WORDS.get(word, word) for index, word in statuses.items()})


_WORDS = {"completed": StepStatus.DONE}
"""The documented status words that differ from those of callsheet."""


def _statuses(steps: object) -> dict[str, str]:
    """The status of each step as given in the data."""
    by_index: dict[str, str] = {}
    for step in cast("list[Any]", steps) if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            row = cast("Mapping[str, Any]", step)
            word: Any = row.get("status", row.get("_status"))
            if isinstance(word, str):
                by_index[str(row.get("index"))] = word
    return by_index


def compute_batches(steps: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The steps by level: each level depends only on earlier ones. Runs do not wait for whole levels.

    Raises CallsheetError (CHK061) for steps that wait for one another in a cycle.

    >>> rows = [{"index": "1", "depends_on": []}, {"index": "2", "depends_on": ["1"]}]
    >>> [[step["index"] for step in batch] for batch in compute_batches(rows)]
    [['1'], ['2']]
    """
    empty: dict[str, Any] = {"title": "", "tool": "none", "args": {}, "depends_on": []}
    each: Iterable[Any] = wanted_list("steps", steps, "steps (dicts)")
    filled: list[dict[str, Any]] = [
        {**empty, **wanted("each step", step, Mapping, "a dict")} for step in each
    ]
    plan = parse_dag(json.dumps({"steps": filled}, ensure_ascii=False, default=str), "<steps>").require()
    wrong = tuple(found for found in check(plan) if found.code == "CHK061")
    if wrong:
        raise CallsheetError(wrong)
    return [[steps[number] for number in level] for level in Precedence.of(plan).levels()]


_log = logging.getLogger("callsheet")
_SECONDS = 0.5


class Checkpoint(NamedTuple):
    """The state of a run: the result of each completed step (null if not kept), and the inputs."""

    done: dict[str, JSON]
    inputs: dict[str, JSON]


def read_checkpoint(text: str, plan: Plan) -> Checkpoint:
    """Parse a state file for a plan; raises CallsheetError (PLN028) if it is invalid or of another plan.

    Uses `plan_id`, `completed_steps` and `variables`; indexes may be numbers. `status` is ignored, since it
    follows from the completed steps.
    """
    try:
        data: Any = read_json(text.removeprefix("\ufeff"))
    except NotJson as error:
        raise _refused(f"the state file is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _refused("the state file is not a JSON object")
    state = cast("dict[str, Any]", data)
    if state.get("plan_id") != plan.id:
        raise _refused(
            f"the state file is of the plan {str(state.get('plan_id'))[:80]}, but this is {plan.id}"
        )
    variables: Any = state.get("variables", {})
    if not isinstance(variables, Mapping):
        raise _refused("variables of the state file is not an object")
    completed = _completed(state.get("completed_steps"))
    return _checkpoint_for(plan, completed, dict(cast("Mapping[str, JSON]", variables)))


def state_file(folder: Path, plan_id: str) -> Path:
    """Where the state of a plan's newest run is written."""
    return folder / f"{plan_id}_state.json"


class StateFile:
    """The state file of one run, rewritten while the run goes on, at most every half second."""

    def __init__(self, folder: Path, plan: Plan, variables: Mapping[str, JSON]) -> None:
        self._path = None if plan.id is None or not is_plan_id(plan.id) else state_file(folder, plan.id)
        self._plan_id = plan.id
        self._done: dict[str, None] = {}
        self._variables = dict(variables)
        self._written = -math.inf

    def step_done(self, step: str, variable: str | None, value: JSON) -> None:
        """Note a completed step with its variable."""
        self._done[step] = None
        if variable is not None:
            self._variables[variable] = value
        if time.monotonic() - self._written >= _SECONDS:
            self.write("running")

    def write(self, status: str, variables: Mapping[str, JSON] | None = None) -> None:
        """Write the file; a failure to write it is logged, since the journal has the run."""
        if variables is not None:
            self._variables.update(variables)
        if self._path is None:
            return
        state = {
            "plan_id": self._plan_id,
            "status": status,
            "completed_steps": list(self._done),
            "variables": self._variables,
        }
        text = json.dumps(state, ensure_ascii=False, indent=1)
        try:
            replace_file(self._path, text.encode("utf-8", "surrogatepass"))
        except OSError:
            _log.warning("the state of a plan's run cannot be written to %s", self._path, exc_info=True)
        self._written = time.monotonic()


def _completed(given: Any) -> list[str]:
    if not isinstance(given, list):
        raise _refused("completed_steps of the state file is not a list of indexes")
    indexes: list[str] = []
    for index in cast("list[Any]", given):
        if not isinstance(index, str | int) or isinstance(index, bool):
            raise _refused(f"completed_steps of the state file has {index!r:.60}, which is not an index")
        indexes.append(str(index))
    return indexes


def _checkpoint_for(plan: Plan, completed: list[str], variables: dict[str, JSON]) -> Checkpoint:
    """The checkpoint: a step's result is its variable, which belongs to the last step that set it."""
    done: dict[str, JSON] = dict.fromkeys(completed)
    in_order = [plan.steps[number] for level in Precedence.of(plan).levels() for number in level]
    results = {s.output.var: s.id for s in in_order if s.output is not None and s.id in done}
    for name, step_id in results.items():
        if name not in variables:
            raise _refused(f"step {step_id} is completed, but its variable {name} is not in the state file")
        done[step_id] = variables[name]
    return Checkpoint(done, {name: value for name, value in variables.items() if name not in results})


def _refused(why: str) -> CallsheetError:
    return CallsheetError.single(
        "PLN028", f"the run cannot be taken over: {why}", help="nothing was run and nothing was written"
    )
