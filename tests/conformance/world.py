"""The scripted world of a case: tools, a model and an agent.

Everything that they receive is recorded, for the checks.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.form import Case

_TURNS_OF_A_CALL = 3
"""How often a tool gives way to others, so that calls made side by side are seen to be so."""

_SAME_TOOL = {
    "exec_code": "execute_code",
    "fetch_webpage": "fetch_page",
    "get_working_memory": "get_wm",
    "install_package": "install_pkg",
    "search_workspace": "search_files",
    "set_working_memory": "set_wm",
}


class TooManyCalls(BaseException):
    """A plan called more often than its case allows."""


def tool_key(name: object) -> str:
    """The one name of a tool in a case, however the case or the product spells it.

    >>> tool_key("@EXEC_CODE"), tool_key("execute_code")
    ('execute_code', 'execute_code')
    """
    plain = str(name).removeprefix("@").lower()
    return _SAME_TOOL.get(plain, plain)


def scripted_error(entry: Mapping[str, Any]) -> BaseException:
    """The exception that an entry of a script names."""
    name, message = entry["raise"], entry.get("message", "scripted failure")
    if name == "CancelledError":
        return asyncio.CancelledError(message)
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = type("CustomError", (Exception,), {}) if name == "CustomError" else Exception
    return kind(message)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that reached the executor: its unique name, spelling, arguments and namespace."""

    tool: str
    spelling: str
    args: Any
    namespace: str


@dataclass(slots=True)
class World:
    """What a case scripts, and all that came of it.

    `peak` is how many calls were under way at once; `slept` the seconds of each wait. A call gives way to
    others three times, each for `linger` seconds.
    """

    tools: dict[str, list[dict[str, Any]]]
    llm: list[Any]
    agent_script: list[Any] | None
    call_limit: int
    calls: list[ToolCall] = field(default_factory=list)
    model_calls: list[str] = field(default_factory=list)
    agent_calls: list[Any] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    peak: int = 0
    linger: float = 0.0
    _active: int = 0
    _sleep: Callable[..., Any] = asyncio.sleep

    @classmethod
    def of(cls, case: Case) -> World:
        """A fresh world of a case."""
        scripts = {tool_key(name): list(script) for name, script in case.tools.items()}
        agent = None if case.agent is None else list(case.agent)
        return cls(scripts, list(case.llm), agent, case.call_limit)

    async def tool(self, name: str, args: Any, namespace: str) -> Any:
        """The executor of tools: the next entry of the script; the last one repeats."""
        key = tool_key(name)
        self.calls.append(ToolCall(key, name, args, namespace))
        if len(self.calls) > self.call_limit:
            raise TooManyCalls
        self._active += 1
        self.peak = max(self.peak, self._active)
        try:
            for _ in range(_TURNS_OF_A_CALL):
                await self._sleep(self.linger)
            script = self.tools.get(key)
            return self._answer(script) if script else {"success": True, "output": f"out:{key}"}
        finally:
            self._active -= 1

    def _answer(self, script: list[dict[str, Any]]) -> Any:
        entry = script.pop(0) if len(script) > 1 else script[0]
        match entry:
            case {"raise": _}:
                raise scripted_error(entry)
            case {"error": message}:
                return {"success": False, "output": "", "error": message}
            case {"return": answer}:
                return answer
            case _:
                return {"success": True, "output": entry["output"]}

    async def model(self, messages: list[dict[str, Any]]) -> str:
        """The model: each reply of the script once, then always the same."""
        self.model_calls.append(conversation(messages))
        if len(self.model_calls) > self.call_limit:
            raise TooManyCalls
        return _reply(self.llm.pop(0)) if self.llm else "LLM-DEFAULT"

    async def agent(self, config: Any) -> str:
        """The agent; the last reply of its script repeats."""
        self.agent_calls.append(config)
        script = self.agent_script or ["AGENT-DEFAULT"]
        return _reply(script.pop(0) if len(script) > 1 else script[0])

    async def on_progress(self, event: Any) -> None:
        """Records a progress event of the run."""
        self.progress.append(event)

    async def quick_sleep(self, delay: float = 0, result: Any = None) -> Any:
        """Replaces asyncio.sleep: records the duration and yields once."""
        if delay > 0:
            self.slept.append(float(delay))
        await self._sleep(0)
        return result


def conversation(messages: list[dict[str, Any]]) -> str:
    """The messages of a model request as one text."""
    return "\n".join(str(message.get("content")) for message in messages)


def _reply(entry: Any) -> Any:
    if isinstance(entry, dict):
        raise scripted_error(entry)
    return entry
