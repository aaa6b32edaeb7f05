"""Published tasks whose tools run in memory: goals by other authors, scored by their end states.

They are those of the package `bfcl-eval` (multi-turn, of the Berkeley Function Calling Leaderboard): a file
system, trading, travel, a vehicle, messages, tickets. The first turn of each conversation is a goal, and its
own calls are the gold. The package is not installed with callsheet, but into a folder on the path:
`pip install --no-deps --target DIR bfcl-eval mpmath`.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

_CLASSES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_KINDS = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_STATELESS = ("MathAPI",)
Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool of a world: its declaration, and the function that carries it out."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    result: Mapping[str, Any]
    function: Callable[..., Any]
    only_reads: bool = False
    """Whether it is declared to change nothing; many servers do not say."""


@dataclass(slots=True)
class World:
    """The tools of one task, and what they have done so far."""

    tools: tuple[Declared, ...]
    state: Callable[[], str]
    calls: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def call(self, tool: Declared, arguments: Mapping[str, Any]) -> Any:
        """Carry out a call; raises RuntimeError for a tool that reports an error."""
        result = tool.function(**arguments)
        plain = json.loads(json.dumps(result, default=str))
        said = json.dumps(dict(arguments), sort_keys=True, default=str)
        self.calls.append((tool.name, said, json.dumps(plain, sort_keys=True)))
        if isinstance(plain, dict) and "error" in plain:
            raise RuntimeError(str(cast("dict[str, Any]", plain)["error"]))
        return cast("Any", plain)


@dataclass(frozen=True, slots=True)
class Case:
    """A way to make a world afresh, and whether the world after a run and the run's answer are right."""

    world: Callable[[], World]
    is_right: Callable[[World, str], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """A goal, and the worlds in each of which its plan must do the right thing."""

    id: str
    goal: str
    cases: tuple[Case, ...]
    tools: tuple[str, ...]
    """What its tools are from: tasks with the same have the same tools."""


def as_after(calls: tuple[str, ...], world: Callable[[], World]) -> Case:
    """A case that is right if its world is as after these calls, and what they looked up was looked up."""

    def is_right(after: World, _: str) -> bool:
        wanted = world()
        execute(calls, wanted)
        if wanted.state() != after.state():
            return False
        seen = {result for _, _, result in after.calls}
        return all(result in seen for _, _, result in wanted.calls if result not in _SAYING_NOTHING)

    return Case(world, is_right)


_SAYING_NOTHING = frozenset({"null", "{}", "[]"})


def execute(calls: Iterable[str], world: World) -> None:
    """Carry out calls as their author wrote them, with literal arguments."""
    by_name = {tool.name: tool for tool in world.tools}
    for text in calls:
        node = ast.parse(text, mode="eval").body
        assert isinstance(node, ast.Call), text
        assert isinstance(node.func, ast.Name), text
        tool = by_name[node.func.id]
        names = list(tool.parameters["properties"])
        given = {name: ast.literal_eval(each) for name, each in zip(names, node.args, strict=False)}
        given |= {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg}
        try:
            world.call(tool, given)
        except RuntimeError:
            continue


def bfcl_tasks() -> Iterator[Task]:
    """The first turns of the multi-turn conversations, those with the same tools one after another."""
    package = importlib.import_module("bfcl_eval")
    assert package.__file__ is not None
    data = Path(package.__file__).parent / "data"
    listed = _lines(data / "BFCL_v4_multi_turn_base.json")
    rows = sorted(listed, key=lambda row: row["involved_classes"])
    answers = {row["id"]: row for row in _lines(data / "possible_answer" / "BFCL_v4_multi_turn_base.json")}
    for row in rows:
        gold = tuple(answers[row["id"]]["ground_truth"][0])
        goal = "\n".join(message["content"] for message in row["question"][0])
        if gold:
            tools = tuple(row["involved_classes"])
            case = as_after(gold, lambda row=row: _bfcl_world(data, row))
            yield Task(row["id"], goal, (case,), tools)


def _bfcl_world(data: Path, row: Mapping[str, Any]) -> World:
    instances: list[Any] = []
    tools: list[Declared] = []
    for name in row["involved_classes"]:
        module = _CLASSES[name]
        where = f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{module}"
        instance = getattr(importlib.import_module(where), name)()
        if name not in _STATELESS:
            instance._load_scenario(copy.deepcopy(row["initial_config"].get(name, {})), long_context=False)
            instances.append(instance)
        for said in _lines(data / "multi_turn_func_doc" / f"{module}.json"):
            about = said["description"].partition("Tool description: ")[2] or said["description"]
            function = getattr(instance, said["name"])
            schemas = _schema(said["parameters"]), _schema(said.get("response") or {})
            tools.append(Declared(said["name"], about, *schemas, function))
    return World(tuple(tools), lambda: repr([_plain(vars(one)) for one in instances]))


def _plain(value: Any) -> Any:
    """A value whose text is the same for equal states."""
    if isinstance(value, dict):
        pairs = cast("dict[object, Any]", value).items()
        return sorted((str(key), _plain(each)) for key, each in pairs if str(key) != "parent")
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return [type(value).__name__, _plain(vars(value))] if hasattr(value, "__dict__") else type(value).__name__


def _schema(said: Any) -> Any:
    """A JSON schema from the package's own dialect."""
    if isinstance(said, dict):
        pairs = cast("dict[str, Any]", said).items()
        return {
            key: _KINDS.get(each, each) if key == "type" and isinstance(each, str) else _schema(each)
            for key, each in pairs
        }
    return [_schema(each) for each in cast("list[Any]", said)] if isinstance(said, list) else said


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
