"""Reads and writes the documented state file `ID_state.json`: the completed steps and variables of a run.

In: the text of such a file from another program, and its plan. Out: the result of each completed step, and
the inputs of the run. A file that does not fit the plan is refused as a whole (PLN028). The one that is
written is for other programs: here, runs are resumed from the journal.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan
from callsheet.ir.graphs import Precedence
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.atomic_file import replace_file
from callsheet.store.library.record import is_plan_id

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
