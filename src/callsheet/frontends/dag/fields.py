"""The fields of a JSON plan: one table for the parser, the JSON Schema and the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Mapping as Table
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

from callsheet.diagnostics import Edit, Fix, Span, did_you_mean
from callsheet.frontends.dag.json_tree import MAX_DEPTH, MAX_DIGITS, Report
from callsheet.frontends.dag.texts import NAME
from callsheet.frontends.tree import Entry, Node, Scalar, Sequence, kind_of
from callsheet.frontends.tree import Mapping as MappingNode

ID = r"[a-z0-9][a-z0-9._-]{0,63}"
"""The id of a plan, as a pattern."""
INDEX = r"(?! )[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,64}(?<! )"
"""The index of a step, as a pattern: no control characters, no leading or trailing blanks."""
TOOL = r"@?[A-Za-z0-9_](?:[A-Za-z0-9_ .:/-]{0,126}[A-Za-z0-9_])?"
"""The name of a tool, as a pattern; names of MCP servers' tools may have dots, dashes and slashes."""
MOST_RETRIES = 10**9
MOST_SECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its type in words and as JSON Schema, its purpose, and whether it is required."""

    name: str
    holds: str
    meaning: str
    schema: Mapping[str, Any]
    is_required: bool = False


_TEXT = {"type": "string"}
_NUMBER = {"type": "number", "minimum": 0, "maximum": MOST_SECONDS}
_INDEX = {"anyOf": [{"type": "string", "pattern": f"^{INDEX}$"}, {"type": "integer"}]}
_ARGS = {"type": "object"}
_TOOL = {"type": "string", "pattern": f"^{TOOL}$"}

FAILURE_FIELDS = (
    Field(
        "retry",
        "a whole number",
        "the number of further attempts",
        {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
    ),
    Field(
        "delay", "a number", "the seconds before the first of them; default: the setting of the run", _NUMBER
    ),
    Field("backoff", "a number", "the factor by which each wait is longer than the one before", _NUMBER),
    Field("terminate", "a text", "ends the plan with this message; its references are filled in", _TEXT),
)
CALL_FIELDS = (
    Field("name", "a text", "the tool", _TOOL, is_required=True),
    Field("args", "an object", "the tool's arguments by name", _ARGS, is_required=True),
    Field("id", "a text", "the call's id, which is ignored", {}),
)
STEP_FIELDS = (
    Field(
        "index", "a text or a whole number", "the step's name, unique in the plan", _INDEX, is_required=True
    ),
    Field("title", "a text", "what the step does, for people", _TEXT, is_required=True),
    Field("tool", "a text", "the tool that is called", _TOOL, is_required=True),
    Field(
        "args",
        "an object",
        "the tool's arguments by name; their references are filled in",
        _ARGS,
        is_required=True,
    ),
    Field(
        "depends_on",
        "a list of indexes",
        "the steps that have to be done before this one starts",
        {"type": "array", "items": _INDEX},
        is_required=True,
    ),
    Field(
        "result_variable",
        "a text",
        "the variable that takes the step's result",
        {"anyOf": [{"type": "string", "pattern": f"^{NAME}$"}, {"type": "null"}]},
    ),
    Field(
        "when",
        "a condition as text",
        "the step is skipped if this is not true",
        {"type": ["string", "null"]},
    ),
    Field(
        "on_fail",
        "an object",
        "what to do when the step fails",
        {"anyOf": [{"$ref": "#/$defs/on_fail"}, {"type": "null"}]},
    ),
)
TOOL_CALLS = Field(
    "tool_calls",
    "a list of one call",
    "the call as planners store it, instead of tool and args",
    {"type": "array", "items": {"$ref": "#/$defs/call"}, "minItems": 1, "maxItems": 1},
)
PLAN_FIELDS = (
    Field("id", "a text", "the plan's name in files and commands", {"type": "string", "pattern": f"^{ID}$"}),
    Field("title", "a text", "what the plan does, for people", _TEXT),
    Field("goal", "a text", "the goal that the plan was made for", _TEXT),
    Field(
        "variables",
        "an object",
        "values that are set before the first step, by name",
        {"type": "object", "propertyNames": {"pattern": f"^{NAME}$"}},
    ),
    Field(
        "steps",
        "a list",
        "the steps, in any order",
        {"type": "array", "items": {"$ref": "#/$defs/step"}},
        is_required=True,
    ),
)


def _object(fields: tuple[Field, ...], also: tuple[Field, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            field.name: {"description": f"{field.holds}: {field.meaning}", **field.schema}
            for field in (*fields, *also)
        },
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a plan.

    It covers the structure only: unknown indexes, cycles, variables, and the syntax of references and
    conditions are checked by `callsheet check`.
    """
    step = _object(STEP_FIELDS, (TOOL_CALLS,))
    step["required"] = [name for name in step["required"] if name not in ("tool", "args")]
    step["oneOf"] = [{"required": ["tool", "args"]}, {"required": ["tool_calls"]}]
    step["dependentSchemas"] = {
        "tool_calls": {"not": {"anyOf": [{"required": ["tool"]}, {"required": ["args"]}]}}
    }
    failure = _object(FAILURE_FIELDS)
    failure["anyOf"] = [{"required": ["retry"]}, {"required": ["terminate"]}]
    failure["dependentRequired"] = {"delay": ["retry"], "backoff": ["retry"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callsheet: a plan as a graph of steps",
        "$comment": f"Numbers have at most {MAX_DIGITS} digits; lists and objects are nested at most "
        f"{MAX_DEPTH} deep.",
        **_object(PLAN_FIELDS),
        "$defs": {"step": step, "call": _object(CALL_FIELDS), "on_fail": failure},
    }


_KINDS = {
    "an object": MappingNode,
    "a list": Sequence,
    "a list of indexes": Sequence,
    "a list of one call": Sequence,
}


class Fields:
    """The fields of one object; access to a field of the wrong type reports an error."""

    def __init__(self, mapping: MappingNode, known: Table[str, Field], report: Report, what: str) -> None:
        self.span = mapping.span
        self.what = what
        """The name of the object in messages: `step 3`."""
        self.step: str | None = None
        """The id of the step that it belongs to."""
        self._report = report
        self._known = known
        self._entries = {entry.key: entry for entry in mapping.entries}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry | None:
        """The entry of a field, unchecked; None if there is none."""
        return self._entries.get(name)

    def check_names(self, also: Many[str] = (), *, is_strict: bool = False) -> None:
        """Report each unknown field: an error if a known one may be meant or `is_strict`, else a warning."""
        for name, entry in self._entries.items():
            if name in self._known or name in also:
                continue
            suggestions = did_you_mean(name, [known for known in self._known if known not in self._entries])
            message = f"{self.what} has no field {name[:40]!r}"
            if suggestions:
                fix = Fix(f"write {suggestions[0]}", (Edit(entry.key_span, f'"{suggestions[0]}"'),))
                help_ = "did you mean " + " or ".join(suggestions) + "?"
                self._report.error("DAG012", message, entry.key_span, help_, fix=fix, step=self.step)
            elif is_strict:
                help_ = "leave it out; the fields are " + ", ".join(self._known)
                self._report.error("DAG012", message, entry.key_span, help_, step=self.step)
            else:
                help_ = "it is ignored; the fields are " + ", ".join(self._known)
                self._report.warning("DAG012", message, entry.key_span, help_, step=self.step)

    def require(self, *names: str) -> None:
        """Report the fields that are missing, as one error."""
        missing = [name for name in names if name not in self._entries]
        if missing:
            listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
            start = self.span.start
            help_ = "; ".join(f'"{name}" holds {self._known[name].holds}' for name in missing)
            self._report.error(
                "DAG010", f"{self.what} has no {listed}", Span(start, start + 1), help_, step=self.step
            )

    def text(self, name: str, *, or_null: bool = False) -> Scalar | None:
        """The string of a field, None if there is none; null is an error unless `or_null`."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Scalar) and (isinstance(value.value, str) or (or_null and value.value is None)):
            return value if value.value is not None else None
        self.wrong_kind(name, value)
        return None

    def object(self, name: str) -> MappingNode | None:
        """The object of a field."""
        value = self._of_kind(name)
        return value if isinstance(value, MappingNode) else None

    def list(self, name: str) -> Sequence | None:
        """The list of a field."""
        value = self._of_kind(name)
        return value if isinstance(value, Sequence) else None

    def number(self, name: str) -> int | float | None:
        """The number of a field; true and false are errors."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        value = entry.value
        number = value.value if isinstance(value, Scalar) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return number
        self.wrong_kind(name, value)
        return None

    def _of_kind(self, name: str) -> Node | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        if isinstance(entry.value, _KINDS[self._known[name].holds]):
            return entry.value
        self.wrong_kind(name, entry.value)
        return None

    def wrong_kind(self, name: str, node: Node) -> None:
        """Report a field of the wrong type."""
        holds = self._known[name].holds
        help_: str | None = None
        if isinstance(node, Scalar) and isinstance(node.value, str) and holds != "a text":
            help_ = "remove the quotes" if node.value.lstrip()[:1] in ("{", "[") else None
            if holds == "a list of indexes":
                help_ = f'write ["{node.value[:40]}"]'
        elif isinstance(node, Scalar) and isinstance(node.value, int | float) and holds == "a text":
            help_ = f'write "{node.value}"'
        elif isinstance(node, Scalar) and node.value is None:
            help_ = {"an object": "write {} for none", "a list of indexes": "write [] for none"}.get(holds)
        self._report.error(
            "DAG011",
            f"{name} of {self.what} is {kind_of(node)}, but should be {holds}",
            node.span,
            help_,
            step=self.step,
        )
