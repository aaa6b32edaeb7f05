"""The domains of tau-bench as worlds: its tools over its data, its tasks, and what is right at the end.

In: the folder of a copy of the repository sierra-research/tau-bench. Out: tasks of a domain with the calls
that its authors expect, and its tools for a runtime over fresh data. Nothing of it is copied here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from callsheet.ir import Effect, canonical_tool_name
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

_CHANGES = ("book_", "cancel_", "exchange_", "modify_", "return_", "send_", "transfer_", "update_")


@dataclass(frozen=True)
class Domain:
    """A domain of tau-bench, `retail` or `airline`, in a folder."""

    folder: Path
    name: str

    @cached_property
    def tasks(self) -> list[Any]:
        """Its test tasks: `instruction`, `actions`, `outputs`."""
        module = self._module("tasks_test")
        return getattr(module, "TASKS_TEST", None) or module.TASKS

    def data(self) -> dict[str, Any]:
        """Its data as they are before a task."""
        return self._module("data").load_data()

    def tools(self, data: dict[str, Any]) -> list[Tool]:
        """Its tools for a runtime, over these data; an answer that begins with "Error" is a failure."""
        return [_tool(each, data) for each in self._module("tools").ALL_TOOLS]

    def replay(self, number: int) -> str:
        """The digest of the data after the calls that the authors of a task expect."""
        data, tools = self.data(), self._by_name
        for action in self.tasks[number].actions:
            if action.name in tools:
                try:
                    tools[action.name].invoke(data=data, **action.kwargs)
                except Exception:  # their own harness goes on after a tool that raises
                    continue
        return self.digest(data)

    def digest(self, data: dict[str, Any]) -> str:
        """The digest by which its authors compare data."""
        base = self._import("base")
        return base.consistent_hash(base.to_hashable(data))

    @property
    def _by_name(self) -> Mapping[str, Any]:
        return {each.get_info()["function"]["name"]: each for each in self._module("tools").ALL_TOOLS}

    def _module(self, name: str) -> Any:
        return self._import(f"{self.name}.{name}")

    def _import(self, name: str) -> Any:
        """A module below its `envs`, without the packages' own imports, which need clients of models."""
        root = self.folder / "tau_bench"
        packages = {"tau_bench": root, "tau_bench.envs": root / "envs"}
        packages[f"tau_bench.envs.{self.name}"] = root / "envs" / self.name
        for package, path in packages.items():
            if package not in sys.modules:
                made: Any = ModuleType(package)
                made.__path__ = [str(path)]
                sys.modules[package] = made
        if "tau_bench.envs.user" not in sys.modules:
            user: Any = ModuleType("tau_bench.envs.user")
            user.load_user = user.UserStrategy = object
            sys.modules["tau_bench.envs.user"] = user
        return import_module(f"tau_bench.envs.{name}")


def _tool(kind: Any, data: dict[str, Any]) -> Tool:
    info = kind.get_info()["function"]

    async def handler(args: dict[str, Any], _: CallContext) -> Any:
        try:
            answer = kind.invoke(data=data, **args)
        except Exception as error:
            raise ToolFailed(str(error)) from error
        if answer.startswith("Error"):
            raise ToolFailed(answer)
        return json.loads(answer) if answer[:1] in "[{" else answer

    name = info["name"]
    spec = ToolSpec(
        canonical_tool_name(name),
        name,
        info["description"],
        info["parameters"],
        Effect.UNSAFE if name.startswith(_CHANGES) else Effect.READ,
        "python:tau_bench",
        is_declared=True,
    )
    return Tool(spec, handler)
