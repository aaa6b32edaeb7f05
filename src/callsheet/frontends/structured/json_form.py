r"""The JSON form of version 2: the fields of each statement, one table for all, and the form of values.

A statement is an object that is recognised by its first field, such as `{"let": "x", "value": 1}`.

`{"=": "e"}` is an expression; a text may have `${e}` in it, and one that is a single `${e}` is that value and
keeps its type. A plain `${` is written `\${`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.dag.fields import FAILURE_FIELDS, PLAN_FIELDS, Field
from callsheet.frontends.dag.json_tree import MAX_DEPTH, MAX_DIGITS, Report
from callsheet.frontends.dag.texts import Texts
from callsheet.frontends.expressions import (
    NotAnExpression,
    format_expression,
    format_hole,
    read_expression,
    read_hole,
)
from callsheet.frontends.expressions.cursor import text_of
from callsheet.frontends.structured.lines import ID_SHAPE
from callsheet.frontends.tree import Mapping, Node, Scalar, Sequence, kind_of
from callsheet.frontends.values.reader import NAME
from callsheet.ir import JSON
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Display, Expression, Hole, Kind, Text, mapped
from callsheet.ir.expression import Mapping as Dict

_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "pattern": f"^{NAME}$"}
_BLOCK: Final = {"type": "array", "items": {"$ref": "#/$defs/statement"}}
_ANY: Final[dict[str, Any]] = {}
TOGETHER: Final = (
    "together", "together, stop", "together, first", "together, as done", "together, stop, as done",
)  # fmt: skip
"""How items run side by side."""
_BOOL: Final = {"type": "boolean"}
_INPUTS: Final = {"type": "array", "items": {"$ref": "#/$defs/input"}}
_NAMES: Final = {"type": "array", "items": _NAME}

_TITLE = Field("title", "a text", "what the step does, for people", _TEXT)
_STEP = Field("id", "a text", "its name, unique in the plan", {"type": "string", "pattern": f"^{ID_SHAPE}$"})
_COMMENT = Field("comment", "a text", "a comment, which has no meaning", _TEXT)
_INTO = Field("result", "a text", "the variable that takes the result", _NAME)
_TYPE = Field("type", "a text", "the type that the result is checked against, such as list[str]", _TEXT)
_ARGS = Field("args", "an object", "values by name", {"type": "object"})
_FAIL = Field("on_fail", "an object", "what to do when it fails", {"$ref": "#/$defs/on_fail"})
_FINALLY = Field("finally", "a list", "statements that run after success and after failure", _BLOCK)
_DO = Field("do", "a list", "the statements of the block", _BLOCK, is_required=True)
_VALUE = Field("value", "a value", "the value", _ANY, is_required=True)
_AFTER = (_FAIL, _FINALLY, _COMMENT)


def _key(name: str, holds: str, meaning: str, schema: dict[str, Any]) -> Field:
    return Field(name, holds, meaning, schema, is_required=True)


def _word(name: str, holds: str, meaning: str, schema: dict[str, Any]) -> tuple[Field, ...]:
    return (_key(name, holds, meaning, schema), _COMMENT)


SHAPES: Final[dict[str, tuple[Field, ...]]] = {
    "tool": (
        _key("tool", "a text", "the tool that is called", _TEXT),
        _STEP,
        _TITLE,
        Field("positional", "a list", "values without names, before args", {"type": "array"}),
        _ARGS,
        _INTO,
        _TYPE,
        *_AFTER,
    ),
    "foreach": (
        _key("foreach", "a text", "the variable of the item", _NAME),
        Field("in", "a value", "the list", _ANY, is_required=True),
        _STEP,
        Field(
            "order",
            "a text",
            "in order, or together; a failure stops the others with stop, what is done first with first; "
            "as done gives results as they come",
            {"enum": ["in order", *TOGETHER]},
        ),
        Field("max", "a number", "how many items run together at most", {"type": "integer", "minimum": 1}),
        Field("limit", "a value", "how many of the first items are taken", _ANY),
        _DO,
        Field("yield", "a value", "what an item adds to the result", _ANY),
        _INTO,
        _TYPE,
        *_AFTER,
    ),
    "repeat": (
        _key("repeat", "a value", 'how many rounds at most, "run" for the bound of the run', _ANY),
        _STEP,
        Field("every", "a value", "the wait between two rounds", _ANY),
        Field("while", "a condition", "goes on as long as this holds", _ANY),
        _DO,
        Field("until", "a condition", "ends when this holds", _ANY),
        *_AFTER,
    ),
    "if": (
        _key("if", "a condition", "an expression", _ANY),
        _STEP,
        Field("then", "a list", "the statements if it holds", _BLOCK, is_required=True),
        Field("elif", "a list", "further conditions", {"type": "array", "items": {"$ref": "#/$defs/branch"}}),
        Field("else", "a list", "the statements if none holds", _BLOCK),
        _COMMENT,
    ),
    "try": (
        _key("try", "a list", "the statements", _BLOCK),
        _STEP,
        Field("within", "a value", "the seconds or the duration after which it is stopped", _ANY),
        *_AFTER,
    ),
    "parallel": (
        _key("parallel", "a list", "statements that start together", _BLOCK),
        _STEP,
        Field("order", "a text", "stop: a failure stops the others", {"enum": ["stop"]}),
        *_AFTER,
    ),
    "call": (_key("call", "a text", "the sub-plan", _NAME), _STEP, _ARGS, _INTO, _TYPE, *_AFTER),
    "compute": (
        _key("compute", "a text", "Python source", _TEXT),
        _STEP,
        Field("reads", "a list", "the variables that it reads", _NAMES),
        Field("sets", "a list", "the variables that it sets", _NAMES),
        *_AFTER,
    ),
    "let": (_key("let", "a text", "the variable", _NAME), _TYPE, _VALUE, _COMMENT),
    "set": (_key("set", "a text", "the variable", _NAME), _VALUE, _COMMENT),
    "require": (
        _key("require", "a condition", "what must hold", _ANY),
        Field("message", "a value", "what is said if it does not", _ANY),
        _COMMENT,
    ),
    "fail": (
        _key("fail", "a value", "what is wrong", _ANY),
        Field("kind", "a text", "the kind of the failure", _NAME),
        _COMMENT,
    ),
    "respond": (_key("respond", "a value", "the answer, or a list of its parts", _ANY), _STEP, _COMMENT),
    "terminate": (_key("terminate", "a value", "the message, or a list", _ANY), _STEP, _COMMENT),
    "replan": (_key("replan", "a value", "what the new plan is about, or a list", _ANY), _STEP, _COMMENT),
    "return": _word("return", "a value", "the result of the sub-plan, [] for none", _ANY),
    "yield": _word("yield", "a value", "what the item adds to the result of the loop", _ANY),
    "note": _word("note", "a value", "a remark in the journal", _ANY),
    "wait": _word("wait", "a value", "seconds, or a duration", _ANY),
    "break": _word("break", "a value", "true", _BOOL),
    "continue": _word("continue", "a value", "true", _BOOL),
}
"""The fields of each statement by the field that it is recognised by, which comes first."""

BRANCH: Final = (SHAPES["if"][0], SHAPES["if"][2])

FAILURE: Final = (
    *FAILURE_FIELDS[:3],
    Field("continue", "a value", "true: the failure becomes the value", _BOOL),
    Field("use", "a value", "the value that takes the place of the result", _ANY),
    Field("skip", "a value", "true: failed items of the loop are left out", _BOOL),
    Field("terminate", "a value", "ends the run with this message", _ANY),
    Field(
        "undo",
        "an object",
        "of a try: what it has done is undone first; inverses by tool, {} for what tools declare",
        {"type": "object", "additionalProperties": _TEXT},
    ),
    Field(
        "handlers", "a list", "blocks for failures", {"type": "array", "items": {"$ref": "#/$defs/handler"}}
    ),
)
HANDLER: Final = (
    Field("kinds", "a list", "the kinds of failure; any, without it", _NAMES),
    Field("as", "a text", "the variable of the failure; error, without it", _NAME),
    _DO,
)
INPUT: Final = (
    Field("name", "a text", "the variable", _NAME, is_required=True),
    Field("type", "a text", "its type, such as int or list[str]", _TEXT, is_required=True),
    Field("default", "a value", "its value if none is given", _ANY),
    Field("secret", "a value", "true: it is never shown", _BOOL),
    Field("help", "a text", "what it is, for people", _TEXT),
    _COMMENT,
)
SUB_PLAN: Final = (
    Field("plan", "a text", "its name", _NAME, is_required=True),
    Field("inputs", "a list", "its inputs", _INPUTS),
    Field("result", "a text", "the type of its result", _TEXT),
    Field("do", "a list", "its statements", _BLOCK),
    Field("from", "a text", "the file that it is in", _TEXT),
    Field("library", "a text", "the plan of the library that it is", _TEXT),
    _COMMENT,
)
PLAN: Final = (
    Field("ltp", "a number", "the version of the language", {"const": 2}, is_required=True),
    PLAN_FIELDS[0],
    PLAN_FIELDS[1],
    PLAN_FIELDS[2],
    Field(
        "types",
        "an object",
        "records by name, each an object of types by field",
        {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": _TEXT}},
    ),
    Field("inputs", "a list", "the plan's inputs", _INPUTS),
    Field("result", "a text", "the type of the answer", _TEXT),
    Field("plans", "a list", "sub-plans", {"type": "array", "items": {"$ref": "#/$defs/plan"}}),
    Field("steps", "a list", "the statements, in their order", _BLOCK, is_required=True),
    _COMMENT,
)


def _object(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            field.name: {"description": f"{field.holds}: {field.meaning}", **field.schema} for field in fields
        },
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def structured_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a JSON plan of version 2.

    It covers the structure only; expressions, names and types are checked by `callsheet check`.
    """
    statements = {name: _object(fields) for name, fields in SHAPES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callsheet: a plan of version 2 as blocks of statements",
        "$comment": f"Numbers have at most {MAX_DIGITS} digits; lists and objects are nested at most "
        f'{MAX_DEPTH} deep. A condition is the text of an expression. In values, {{"=": "…"}} is an '
        "expression, a text may have ${…} in it, and a text that is one ${…} keeps its type.",
        **_object(PLAN),
        "$defs": {
            "statement": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in statements]},
            "plan": _object(SUB_PLAN),
            "input": _object(INPUT),
            "branch": _object(BRANCH),
            "on_fail": _object(FAILURE),
            "handler": _object(HANDLER),
            **statements,
        },
    }


_OPENING = lazy.pattern(r"(\\*)\$\{")
_SLASHES = lazy.pattern(r"\\+\Z")
_EXPRESSION = "="
_DOLLAR = lazy.pattern(r"\$([A-Za-z_]\w*)")


class Values:
    """Converts nodes of one source to expressions; those that cannot be read are reported (DAG021)."""

    def __init__(self, source: str, report: Report) -> None:
        self._texts = Texts(source, report)
        self._report = report
        self._dollars: list[tuple[str, Span]] = []
        """Texts with a `$name` in them, which is literal."""

    def warn_of_dollars(self, names: Collection[str]) -> None:
        """DAG025 for each text in which a variable with one of these names seems to be meant."""
        for text, span in self._dollars:
            found = next((each for each in _DOLLAR.finditer(text) if each[1] in names), None)
            if found is not None:
                name = found[1]
                message = f"{found[0]} is literal here, although there is a variable of that name"
                whole = f'{{"=": "${name}"}} is its value' if found[0] == text else ""
                inside = f"in a text it is ${{{name}}}"
                self._report.warning("DAG025", message, span, ", ".join(filter(None, (whole, inside))))

    def value(self, node: Node) -> Expression:
        """The expression that a node stands for."""
        match node:
            case Scalar(value=str(text)):
                if "$" in text:
                    self._dollars.append((text, node.span))
                return self._text(node, text) if "${" in text else Literal(text, node.span)
            case Scalar(value=value, span=span):
                return Literal(value, span)
            case Sequence(items=items, span=span):
                return Display(Kind.LIST, tuple(self.value(item) for item in items), span)
            case Mapping(entries=entries, span=span):
                if len(entries) == 1 and entries[0].key == _EXPRESSION:
                    return self.expression(entries[0].value)
                pairs = ((Literal(entry.key, entry.key_span), self.value(entry.value)) for entry in entries)
                return Dict(tuple(pairs), span)

    def condition(self, node: Node) -> Expression:
        """The expression of a condition, which may be its text alone."""
        return (
            self.expression(node)
            if isinstance(node, Scalar) and isinstance(node.value, str)
            else self.value(node)
        )

    def expression(self, node: Node) -> Expression:
        """The expression whose text a node has."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            message = f"an expression is a text, but this is {kind_of(node)}"
            self._report.error("DAG021", message, node.span, 'write {"=": "$x + 1"}')
            return Literal(None, node.span)
        places = self._texts.places(node).span
        try:
            found = read_expression(node.value).expression
        except NotAnExpression as error:
            self._report.error("DAG021", error.message, places(*error.span), error.help)
            return Literal(None, node.span)
        return _placed(found, places)

    def _text(self, node: Scalar, text: str) -> Expression:
        places = self._texts.places(node).span
        parts: list[str | Hole] = []
        at = 0
        while (opening := _OPENING.search(text, at)) is not None:
            slashes = len(opening[1])
            parts.append(text[at : opening.start()] + "\\" * (slashes // 2))
            at = opening.end()
            if slashes % 2:
                parts.append("${")
                continue
            try:
                hole, at = read_hole(text, opening.end(1))
            except NotAnExpression as error:
                help_ = error.help or r"a plain ${ is written \${, which is \\${ in JSON"
                self._report.error("DAG021", error.message, places(*error.span), help_)
                return Literal(text, node.span)
            parts.append(Hole(_placed(hole.expression, places), hole.format))
        parts.append(text[at:])
        made = text_of(parts, node.span)
        match made:
            case Text(parts=(Hole(expression=only, format=None),)):
                return only
            case _:
                return made


def _placed(node: Expression, places: Callable[[int, int], Span]) -> Expression:
    """The expression with its places in the source."""
    inner = mapped(node, lambda part: _placed(part, places))
    return inner if inner.span is None else replace(inner, span=places(*inner.span))


def value_of(node: Expression) -> JSON:
    """The JSON data of an expression, which `Values.value` reads; raises ValueError as its printer does."""
    match node:
        case Literal(value=str(text)):
            return _escaped(text)
        case Literal(value=value):
            return value
        case Display(kind=Kind.LIST, items=items):
            return [value_of(item) for item in items]
        case Dict(items=pairs):
            keys = [key.value for key, _ in pairs if isinstance(key, Literal) and isinstance(key.value, str)]
            if len(keys) == len(pairs) and keys != [_EXPRESSION] and len(set(keys)) == len(keys):
                return {key: value_of(value) for key, (_, value) in zip(keys, pairs, strict=True)}
        case Text(parts=parts):
            is_lone = len(parts) == 1 and isinstance(parts[0], Hole) and parts[0].format is None
            if not is_lone:
                return "".join(_part(part, before_hole=n + 1 < len(parts)) for n, part in enumerate(parts))
        case _:
            pass
    return {_EXPRESSION: format_expression(node)}


def _part(part: str | Hole, *, before_hole: bool) -> str:
    if isinstance(part, str):
        text = _escaped(part)
        return _SLASHES.sub(lambda found: found[0] * 2, text) if before_hole else text
    spec = "" if part.format is None else f":{part.format}"
    return f"${{{format_hole(part.expression)}{spec}}}"


def _escaped(text: str) -> str:
    return _OPENING.sub(lambda found: found[1] * 2 + "\\${", text)
