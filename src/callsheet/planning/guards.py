"""The guards of tool calls: the budget, a limit on repeated calls, and values bound for later arguments.

In: the calls of a conversation and of its plans, with their results. Out: why a call may not be made, and
arguments with bound values in place of `$v1`, `$v2`, ….
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from callsheet.api.budget import SharedBudget
from callsheet.ir import canonical_tool_name
from callsheet.ir.canon import canonical_bytes
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json

MAX_SAME_CALLS = 20
"""How often in a row one tool may be called with the same arguments."""
_MOST_BINDINGS = 1_000
_BOUND = re.compile(r"\$(v[1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueBinding:
    """A result that later arguments may name: `$v1` is the value of the binding `v1`."""

    name: str
    tool: str
    arguments: Mapping[str, Any]
    value: Any


@dataclass(slots=True)
class ToolStateManager:
    """What a conversation and its plans have called, and what they may still call.

    `budget` limits the calls in all and of each tool. A tool that was called `max_same_calls` times in a row
    with the same arguments is refused until something else is called. The last 1,000 results are bound to
    `v1`, `v2`, … in the order in which they came.
    """

    budget: SharedBudget = field(default_factory=SharedBudget)
    max_same_calls: int = MAX_SAME_CALLS
    bindings: dict[str, ValueBinding] = field(default_factory=dict[str, ValueBinding])
    _last: bytes = b""
    _same: int = 0
    _bound: int = 0

    def check_all_guards(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str | None:
        """Why the conversation may not make this call; None if it may."""
        refusal = self.budget.refusal(tool)
        return refusal.describe() if refusal is not None else self.runaway(tool, arguments or {})

    def runaway(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Why this call repeats too often; None if it does not."""
        if self._same < self.max_same_calls or self._last != _call(tool, arguments):
            return None
        return (
            f"{tool} was called {self._same} times in a row with the same arguments, the limit is"
            f" {self.max_same_calls}; call something else first, or raise max_same_calls"
        )

    def record_tool_call(self, tool: str, arguments: Mapping[str, Any], result: Any = None) -> ValueBinding:
        """Count a call that the conversation made itself, and bind its result."""
        self.budget.count_call(tool)
        return self.note_call(tool, arguments, result)

    def note_call(self, tool: str, arguments: Mapping[str, Any], result: Any) -> ValueBinding:
        """Bind the result of a call whose usage is counted elsewhere, as that of a plan is."""
        call = _call(tool, arguments)
        self._same = self._same + 1 if call == self._last else 1
        self._last = call
        self._bound += 1
        binding = ValueBinding(f"v{self._bound}", tool, dict(arguments), result)
        self.bindings[binding.name] = binding
        if len(self.bindings) > _MOST_BINDINGS:
            del self.bindings[next(iter(self.bindings))]
        return binding

    def resolved(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the values of `$v1`, …: as they are, or as text within a text."""
        return {name: self._resolved(value) for name, value in arguments.items()}

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, str):
            whole = _BOUND.fullmatch(value)
            if whole is not None and whole[1] in self.bindings:
                return self.bindings[whole[1]].value
            return _BOUND.sub(self._as_text, value)
        if isinstance(value, Mapping):
            return self.resolved(cast("Mapping[str, Any]", value))
        return (
            [self._resolved(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
        )

    def _as_text(self, found: re.Match[str]) -> str:
        binding = self.bindings.get(found[1])
        return found[0] if binding is None else str(binding.value)


def _call(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """A call as bytes, to compare calls."""
    name = canonical_tool_name(tool)
    try:
        return canonical_bytes([name, to_json(arguments)])
    except ToolFailed:  # arguments without a JSON form are compared as they print
        return f"{name} {arguments!r}".encode("utf-8", "surrogatepass")
