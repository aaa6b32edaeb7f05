"""Multi-turn tasks of BFCL as worlds: their classes as tools, and what is right at the end.

In: the folder `berkeley-function-call-leaderboard` of a copy of the repository ShishirPatil/gorilla. Out: the
tools of a task over fresh instances of its classes, and how these differ from instances on which the calls of
the possible answer were made. Nothing of it is copied here.
"""

from __future__ import annotations

import ast
import json
import sys
from copy import deepcopy
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from callsheet.ir import Effect, canonical_tool_name
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

_READS = (
    *("get_", "display", "check_", "estimate_", "find", "list_", "view_", "search_", "retrieve_", "compute_"),
    *("ls", "cat", "grep", "diff", "tail", "wc", "sort", "pwd", "du", "gallon_", "mean", "logarithm"),
)
_TYPES = {"dict": "object", "float": "number"}
_NO_STATE = frozenset({"MathAPI"})


class Task:
    """A task of the category `multi_turn_base`, by its number."""

    def __init__(self, folder: Path, number: int) -> None:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        self._data = folder / "bfcl_eval" / "data"
        name = "BFCL_v4_multi_turn_base.json"
        self._entry = _lines(self._data / name)[number]
        self._answer: list[list[str]] = _lines(self._data / "possible_answer" / name)[number]["ground_truth"]

    @property
    def turns(self) -> list[str]:
        """What the user says, turn by turn."""
        return [said["content"] for turn in self._entry["question"] for said in turn]

    @cached_property
    def _modules(self) -> Any:
        return import_module("bfcl_eval.constants.executable_backend_config")

    def world(self) -> World:
        """Fresh instances of its classes."""
        instances: dict[str, Any] = {}
        specs: list[ToolSpec] = []
        for name in self._entry["involved_classes"]:
            made = getattr(import_module(self._modules.CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in _NO_STATE:
                made._load_scenario(deepcopy(self._entry["initial_config"].get(name, {})))
            instances[name] = made
            page = self._modules.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
            specs += map(_spec, _lines(self._data / "multi_turn_func_doc" / page))
        return World(instances, specs)

    def missed(self, world: World) -> list[str]:
        """What a world lacks of one on which the expected calls were made: states, and answers of calls."""
        wanted = self.world()
        for text in (call for turn in self._answer for call in turn):
            call: Any = ast.parse(text, mode="eval").body
            named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
            wanted.call(call.func.id, *map(ast.literal_eval, call.args), **named)
        missed = [
            f"{name}.{part} is {getattr(world.instances[name], part)!r}, not {value!r}"
            for name, made in wanted.instances.items()
            for part, value in _state(made)
            if not part.startswith("_") and getattr(world.instances[name], part) != value
        ]
        left = [*world.answers]
        for answer in wanted.answers:
            if answer in left:
                left.remove(answer)
            else:
                missed.append(f"no call answered {answer}")
        return missed


class World:
    """Instances of the classes of a task, the tools over them, and what their calls have answered."""

    def __init__(self, instances: dict[str, Any], specs: list[ToolSpec]) -> None:
        self.instances = instances
        self.answers: list[str] = []
        self.tools = [Tool(spec, self._handler(spec.executor)) for spec in specs]

    def call(self, name: str, /, *args: Any, **named: Any) -> Any:
        """What a call answers; like BFCL's own harness it goes on after one that raises."""
        method = next(getattr(one, name) for one in self.instances.values() if hasattr(one, name))
        try:
            answer = method(*args, **named)
        except Exception as error:
            answer = {"error": str(error)}
        self.answers.append(json.dumps(answer, sort_keys=True, default=float))  # it has numbers of mpmath
        return json.loads(self.answers[-1])

    def _handler(self, name: str) -> Any:
        async def handler(args: dict[str, Any], _: CallContext) -> Any:
            answer = self.call(name, **args)
            if "error" in (answer or ()):  # some tools answer nothing
                raise ToolFailed(str(answer["error"]))
            return answer

        return handler


def _spec(told: dict[str, Any]) -> ToolSpec:
    name: str = told["name"]
    return ToolSpec(
        canonical_tool_name(name),
        name,
        told["description"],
        _schema(told["parameters"]),
        Effect.READ if name.startswith(_READS) else Effect.UNSAFE,
        "python:bfcl",
        is_declared=True,
        result=_schema(told["response"]),
    )


def _schema(told: Any) -> Any:
    """A JSON schema of what BFCL declares with names of Python's types."""
    if isinstance(told, dict):
        found = cast("dict[str, Any]", told)
        return {
            key: _TYPES.get(value, value) if key == "type" and isinstance(value, str) else _schema(value)
            for key, value in found.items()
        }
    return [*map(_schema, cast("list[Any]", told))] if isinstance(told, list) else told


def _state(instance: Any) -> list[tuple[str, Any]]:
    return [*cast("dict[str, Any]", vars(instance)).items()]


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
