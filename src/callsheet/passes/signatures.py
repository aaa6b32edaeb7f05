"""What calls look like: the arguments of tools, and those of the operations of callsheet itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from callsheet.ir import JSON, Effect

LiteralCheck: TypeAlias = "Callable[[str, JSON], str | None]"
"""Looks at a literal argument by name; gives what is wrong with it, None if nothing is."""


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What the checks need to know of a tool.

    `parameters` are the names that positional arguments take, in order; `schema` is the JSON
    schema of the arguments' object. `check_literal` may know more about literal arguments than
    a schema can say (whether a query can be parsed). `gives_list` says that every result is a list.
    """

    parameters: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    effect: Effect = Effect.UNSAFE
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    check_literal: LiteralCheck | None = None
    gives_list: bool = False

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[str, Any],
        effect: Effect = Effect.UNSAFE,
        check_literal: LiteralCheck | None = None,
        *,
        gives_list: bool = False,
    ) -> ToolSignature:
        """The signature that a JSON schema of arguments declares; what it does not say is open.

        >>> ToolSignature.from_schema({"properties": {"url": {}}, "required": ["url"]}).parameters
        ('url',)
        """
        required: Any = schema.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        return cls(
            parameters=tuple(_properties(schema)),
            required=frozenset(name for name in names if isinstance(name, str)),
            effect=effect,
            schema=schema,
            check_literal=check_literal,
            gives_list=gives_list,
        )

    def schema_of(self, name: str) -> Mapping[str, Any]:
        """The JSON schema of one argument; an empty one, which takes anything, if there is none."""
        found: Any = _properties(self.schema).get(name)
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}

    @property
    def is_open(self) -> bool | None:
        """Whether other arguments than those declared are taken; None where nobody said."""
        more = self.schema.get("additionalProperties")
        if more is None:
            return None if self.parameters else True
        return more is not False


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = schema.get("properties")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Operation:
    """The named arguments of a model or agent operation, and whether it looks at data.

    `required` are those it cannot work without, `expected` those it is poor without.
    """

    names: tuple[str, ...]
    needs_data: bool = True
    required: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


OPERATIONS: Mapping[str, Operation] = {
    "LLM_EXTRACT": Operation(("target",), expected=("target",)),
    "LLM_CLASSIFY": Operation(("categories",), required=("categories",)),
    "LLM_SUMMARIZE": Operation(("format",)),
    "LLM_ANALYZE": Operation(("task",), expected=("task",)),
    "LLM_EVALUATE": Operation(("condition",), needs_data=False, expected=("condition",)),
    "LLM_GENERATE": Operation(("context", "format"), needs_data=False),
    "LLM_TRANSLATE": Operation(("target_lang",), expected=("target_lang",)),
    "AGENT_CRITIQUE": Operation(("criteria", "rounds"), expected=("criteria",)),
    "CONSENSUS": Operation(("topic", "rounds")),
    "SELF_REFINE": Operation(("goal", "rounds")),
    "AGENT_SOLVE": Operation(
        ("goal", "agent", "max_turns", "tools", "max_calls", "parallel"), needs_data=False, expected=("goal",)
    ),
}
"""The operations and the arguments that the language reference gives them.

Each takes any number of inputs by position, and `context`; a name it does not know it is told.
"""
