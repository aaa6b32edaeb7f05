"""Reads the documented state file `ID_state.json`: the completed steps and variables of a run elsewhere.

In: the text of such a file, and its plan. Out: the result of each completed step, and the inputs of the
run. A file that does not fit the plan is refused as a whole (PLN028).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan
from callsheet.ir.precedence import Precedence
from callsheet.ir.strict_json import NotJson, read_json


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
