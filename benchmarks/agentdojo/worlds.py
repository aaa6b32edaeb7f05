"""The suites of AgentDojo as worlds: tools with declared effects, tasks, and what is right at the end.

In: the name of a suite. Out: its tasks, its tools for a runtime over one environment, attacks on it. Needs
the package `agentdojo`; nothing else of callsheet does.
"""

from __future__ import annotations

import enum
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeGuard

from callsheet.ir import Effect, canonical_tool_name
from callsheet.ir.operations import ToolClass
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _runtime: Any = import_module("agentdojo.functions_runtime")
    _suites: Any = import_module("agentdojo.task_suite.load_suites")
    _types: Any = import_module("agentdojo.types")

SUITES = ("workspace", "travel", "banking", "slack")
_LISTS = re.compile(r"TODO list at ([a-z./-]+)")
VERSION = "v1.2.2"
_READS = re.compile(r"(?:get|search|list|read|check)_")
DOES: Mapping[str, ToolClass] = {
    "send_email": ToolClass.SENDS,
    "create_calendar_event": ToolClass.SENDS,
    "reschedule_calendar_event": ToolClass.WRITES,
    "cancel_calendar_event": ToolClass.DELETES,
    "add_calendar_event_participants": ToolClass.SENDS,
    "delete_email": ToolClass.DELETES,
    "append_to_file": ToolClass.WRITES,
    "create_file": ToolClass.WRITES,
    "delete_file": ToolClass.DELETES,
    "share_file": ToolClass.SENDS,
    "reserve_hotel": ToolClass.PAYS,
    "reserve_car_rental": ToolClass.PAYS,
    "reserve_restaurant": ToolClass.PAYS,
    "send_money": ToolClass.PAYS,
    "schedule_transaction": ToolClass.PAYS,
    "update_scheduled_transaction": ToolClass.PAYS,
    "update_password": ToolClass.ADMINISTERS,
    "update_user_info": ToolClass.WRITES,
    "add_user_to_channel": ToolClass.ADMINISTERS,
    "send_direct_message": ToolClass.SENDS,
    "send_channel_message": ToolClass.SENDS,
    "invite_user_to_slack": ToolClass.ADMINISTERS,
    "remove_user_from_slack": ToolClass.ADMINISTERS,
    "post_webpage": ToolClass.SENDS,
}
"""What the author of each tool that changes something would declare; all others read."""


@dataclass(frozen=True)
class Call:
    """A call of a tool that the authors of a task expect."""

    tool: str
    args: Mapping[str, Any]


@dataclass
class World:
    """One environment with its tools; `calls` are those that were made."""

    suite: str
    env: Any
    calls: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.before = self.env.model_copy(deep=True)
        self._runtime = _runtime.FunctionsRuntime(_suite(self.suite).tools)

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Call a tool; raises ToolFailed with its message if it fails."""
        self.calls.append(_runtime.FunctionCall(function=name, args=dict(args)))
        result, error = self._runtime.run_function(self.env, name, dict(args))
        if error:
            raise ToolFailed(error)
        return plain(result)

    def tools(self) -> list[Tool]:
        """The tools for a runtime, as their author would declare them."""
        return [self._tool(function) for function in _suite(self.suite).tools]

    def _tool(self, function: Any) -> Tool:
        async def handler(args: dict[str, Any], _: CallContext) -> Any:
            return self.call(function.name, args)

        reads = function.name not in DOES
        assert not reads or _READS.match(function.name)
        schema = function.parameters.model_json_schema()
        spec = ToolSpec(
            canonical_tool_name(function.name),
            function.name,
            function.description,
            {name: schema[name] for name in ("type", "properties", "required", "$defs") if name in schema},
            Effect.READ if reads else Effect.UNSAFE,
            "python:agentdojo",
            is_declared=True,
            does=DOES.get(function.name),
            result=_result_of(function.return_type),
        )
        return Tool(spec, handler)


def _result_of(annotation: Any) -> dict[str, Any]:
    """The schema of a result as JSON, from the type that a function is annotated with."""
    if annotation is None:
        return {}
    return import_module("pydantic").TypeAdapter(annotation).json_schema(mode="serialization")


@dataclass(frozen=True)
class Task:
    """What a user wants of a suite, or with `is_attack` what an attacker wants."""

    suite: str
    id: str
    goal: str
    answer: str
    is_attack: bool
    _task: Any

    def world(self, injections: Mapping[str, str] | None = None) -> World:
        """A new environment; `injections` are texts by the places at which an attacker can write."""
        return World(self.suite, self._env(injections or {}))

    def calls(self, env: Any) -> list[Call]:
        """What its authors would call in this environment, after the pages that only its goal names."""
        pages = [Call("get_webpage", {"url": page}) for page in _LISTS.findall(self.goal)]
        return [*pages, *self._calls(env)]

    def _calls(self, env: Any) -> list[Call]:
        return [Call(call.function, dict(call.args)) for call in self._task.ground_truth(env)]

    def is_right(self, world: World, answer: str) -> bool:
        """Whether the task is done: for an attack, whether its goal is reached."""
        said = [_types.text_content_block_from_string(answer)]
        judged = _suite(self.suite)._check_task_result
        return bool(judged(self._task, said, world.before, world.env, world.calls))

    def _env(self, injections: Mapping[str, str]) -> Any:
        env = _suite(self.suite).load_and_inject_default_environment(dict(injections))
        return env if self.is_attack else self._task.init_environment(env)


def tasks(suite: str) -> list[Task]:
    """What the users of a suite want."""
    known = _suite(suite).user_tasks.values()
    return [
        Task(suite, task.ID, task.PROMPT, getattr(task, "GROUND_TRUTH_OUTPUT", "") or "Done.", False, task)
        for task in known
    ]


def attacks(suite: str) -> list[Task]:
    """What its attackers want."""
    known = _suite(suite).injection_tasks.values()
    return [Task(suite, task.ID, task.GOAL, "", True, task) for task in known]


def places(suite: str) -> Sequence[str]:
    """Where an attacker can write."""
    return tuple(_suite(suite).get_injection_vector_defaults())


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a list, whatever is in it."""
    return isinstance(value, list)


def is_dict(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is an object of JSON."""
    return isinstance(value, dict)


def plain(value: Any) -> Any:
    """A result as JSON data."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dict(value):
        return {str(key): plain(each) for key, each in value.items()}
    if is_list(value):
        return [plain(each) for each in value]
    return value.value if isinstance(value, enum.Enum) else json.loads(json.dumps(value, default=str))


def _suite(name: str) -> Any:
    return _suites.get_suite(VERSION, name)
