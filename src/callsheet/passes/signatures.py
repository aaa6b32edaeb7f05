"""Signatures: the arguments of tools, and of callsheet's own model and agent operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from callsheet.ir import JSON, Effect

LiteralCheck: TypeAlias = "Callable[[str, JSON], str | None]"
"""Checks a literal argument, given its name and value; returns what is wrong with it, or None."""


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What the checks need to know about a tool.

    `parameters` are the names that positional arguments fill, in order; `schema` is the JSON schema of
    the arguments' object. `check_literal` validates literal arguments beyond what a schema can express
    (whether a query parses, say). `gives_list` means that every result is a list.
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
        """The signature declared by a JSON schema of the arguments; malformed parts are ignored.

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
        """The JSON schema of one argument; the empty schema, which accepts anything, if none is declared.

        An undeclared argument has the schema `additionalProperties`, unless a pattern may declare it.
        """
        schema: Any = _properties(self.schema).get(name)
        if schema is None and "patternProperties" not in self.schema:
            schema = self.schema.get("additionalProperties")
        return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}

    @property
    def is_open(self) -> bool | None:
        """Whether undeclared arguments are accepted; None if the schema does not say.

        `patternProperties` may accept any of them: patterns are not evaluated.
        """
        if "patternProperties" in self.schema:
            return True
        more = self.schema.get("additionalProperties")
        if more is None:
            return None if self.parameters else True
        return more is not False


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    declared: Any = schema.get("properties")
    return cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Operation:
    """The named arguments of a model or agent operation, and whether it needs input data.

    A missing `required` argument is an error, a missing `expected` one a warning.
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
"""The operations and their arguments, as in the language reference.

Each also takes any number of positional inputs and `context`. Other named arguments are passed on to
the model as they are.
"""
