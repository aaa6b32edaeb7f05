"""Runs the queries of `@SELECT`: JMESPath with more functions, limits on work, and places of faults.

In: JSON data and a query. Out: JSON that shares nothing with the data, or a Fault. This module and its
imports are loaded by the first query: nothing else in callsheet needs JMESPath.
"""

# The library has no types: its results are unknown until `settled`.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false

from __future__ import annotations

import math
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from jmespath.exceptions import (
    ArityError,
    IncompleteExpressionError,
    JMESPathError,
    JMESPathTypeError,
    LexerError,
    ParseError,
)
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.parser import ParsedResult, Parser
from jmespath.visitor import Options, TreeInterpreter

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.ir import JSON
from callsheet.machine.values import parse_json
from callsheet.ports.transforms.functions import FUNCTIONS, kind_of, plural
from callsheet.ports.transforms.work import Fault, Work

MAX_QUERY = 10_000
MAX_NESTING = 100
MAX_RESULT_DEPTH = 150
MAX_RESULT_ITEMS = 1_000_000
MAX_RESULT_CHARACTERS = 10_000_000
_LARGEST = 10**4_000
_LOOKS_INSIDE = frozenset({"contains", "to_string", "not_null", "to_array", "type"})
_BUILT_IN: dict[str, dict[str, Any]] = Functions.FUNCTION_TABLE
_SILENCE = threading.Lock()
_WRONG = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name` in a query: a value that is given beside it."""

    name: str


_PARAMETER = lazy.pattern(
    r"""'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|\$([A-Za-z_]\w*)""", re.S | re.A
)


class _Lexer(Lexer):
    """JMESPath's lexer, to which a parameter is a literal."""

    def tokenize(self, expression: str) -> Iterator[Any]:
        """The tokens of a query; the value of a parameter's is a `Parameter`."""
        found = {one.start(): one[1] for one in _PARAMETER.finditer(expression) if one[1]}
        for at in found:  # as an identifier of the same length, so that all places stay
            expression = f"{expression[:at]}_{expression[at + 1 :]}"
        for token in super().tokenize(expression):
            name = found.get(token["start"])
            if name is None or token["type"] != "unquoted_identifier":
                yield token
            else:
                yield {**token, "type": "literal", "value": Parameter(name)}


class _PlacedParser(Parser):
    """JMESPath's parser with parameters, which also records the place of each function name."""

    def _parse(self, expression: str) -> Any:
        own: Any = self
        own.tokenizer = _Lexer().tokenize(expression)
        own._tokens, own._index = list(own.tokenizer), 0
        parsed = own._expression(binding_power=0)
        if own._current_token() != "eof":
            token = own._lookahead_token(0)
            raise ParseError(token["start"], token["value"], token["type"])
        return ParsedResult(expression, parsed)

    def _token_led_lparen(self, function: Any) -> Any:
        at = cast("Any", self)._lookahead_token(-2)["start"]
        node: Any = super()._token_led_lparen(function)  # pyright: ignore[reportAttributeAccessIssue]
        return {**node, "at": at}


@lru_cache(maxsize=256)
def compiled(query: str) -> Any:
    """The syntax tree of a query; raises Fault if it is invalid or can never work."""
    if len(query) > MAX_QUERY:
        raise Fault(f"the query is longer than {MAX_QUERY:,} characters")
    if not query.strip():
        raise Fault("the query is empty")
    tree = _read(query)
    for node, depth in _nodes(tree):
        if depth > MAX_NESTING:
            raise Fault(f"the query is nested deeper than {MAX_NESTING} levels")
        if node["type"] == "function_expression":
            _check_function(node)
        elif node["type"] == "slice" and node["children"][2] == 0:
            raise Fault("the step of a slice cannot be 0")
    return tree


def _read(query: str) -> Any:
    try:
        # Unquoted words in backticks are read as strings, as the library does with a warning.
        with _SILENCE, warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            return _PlacedParser()._do_parse(query).parsed  # pyright: ignore[reportAttributeAccessIssue]
    except LexerError as error:
        raise Fault(f"the query cannot be read: {error.message.lower()[:80]}", error.lexer_position) from None
    except ParseError as error:
        if isinstance(error, IncompleteExpressionError) or error.token_type == "EOF":
            raise Fault("the query ends too early: something is missing here", len(query)) from None
        message = f"the query cannot be read: {error.token_value!r} is out of place"
        raise Fault(message, error.lex_position) from None
    except RecursionError:
        raise Fault(f"the query is nested deeper than {MAX_NESTING} levels") from None
    except _WRONG as error:
        raise Fault(f"the query cannot be read: {error}") from None


def function_names() -> tuple[str, ...]:
    """The functions that a query may call.

    >>> {"upper", "sort_by"} <= {*function_names()}
    True
    """
    return tuple(sorted({*FUNCTIONS, *_BUILT_IN}))


def _nodes(tree: Any) -> Iterator[tuple[Any, int]]:
    stack: list[tuple[Any, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack += ((child, depth + 1) for child in reversed(node["children"]) if isinstance(child, dict))


def _check_function(node: Any) -> None:
    """Raise Fault for an unknown function, or for arguments that can never be valid."""
    name, arguments, at = node["value"], node["children"], node["at"]
    function = FUNCTIONS.get(name)
    try:
        if function is not None:
            function.check_count(name, len(arguments))
            for place, argument in enumerate(arguments):
                if argument["type"] == "literal" and not isinstance(argument["value"], Parameter):
                    function.check_literal(place, argument["value"])
        elif name in _BUILT_IN:
            _check_built_in_count(name, len(arguments))
        else:
            suggestions = did_you_mean(name, [*FUNCTIONS, *_BUILT_IN])
            raise Fault(
                f"no function is called {name}()"
                + (f"; did you mean {suggestions[0]}()?" if suggestions else "")
            )
    except Fault as fault:
        raise Fault(fault.message, at) from None


def _check_built_in_count(name: str, count: int) -> None:
    signature = _BUILT_IN[name]["signature"]
    wanted = len(signature)
    has_more = bool(signature) and bool(signature[-1].get("variadic"))
    if count < wanted or (count > wanted and not has_more):
        raise Fault(f"{name}() takes {'at least ' if has_more else ''}{plural(wanted)}, not {count}")


class _Library(Functions):
    """The functions of JMESPath and of the table, each charged before it runs."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def call_function(self, function_name: str, resolved_args: Iterable[Any]) -> Any:
        """Call a function by its name; raises Fault or what the library raises."""
        given = list(resolved_args)
        function = FUNCTIONS.get(function_name)
        if function is not None:
            function.check_kinds(function_name, given)
            return function.call(self._work, *given)
        if function_name in _LOOKS_INSIDE:
            self._work.charge_values(given)
        else:
            for value in given:
                self._charge_outside(value)
            if function_name == "join" and list(map(kind_of, given)) == ["string", "array"]:
                self._work.charge_text(len(given[0]) * len(given[1]))
        return super().call_function(function_name, given)

    def _charge_outside(self, value: Any) -> None:
        """Charge for a value and, if it is a list, for its texts, which may be joined."""
        if isinstance(value, str):
            self._work.charge_text(len(value))
        elif isinstance(value, list | dict):
            texts = cast("list[Any]", value) if isinstance(value, list) else []
            self._work.charge(len(value) + sum(len(t) for t in texts if isinstance(t, str)) // 16)


class _Interpreter(TreeInterpreter):
    """JMESPath's interpreter, which counts its work and parses JSON text on a path."""

    def __init__(self, work: Work, bound: Mapping[str, JSON]) -> None:
        super().__init__(Options(custom_functions=_Library(work)))
        self._work, self._bound = work, bound

    def visit_literal(self, node: Any, value: Any) -> Any:
        """A literal of the query, or the value of a parameter."""
        held = node["value"]
        return self._bound[held.name] if isinstance(held, Parameter) else held

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """The value of a node."""
        self._work.charge(1)
        return super().visit(node, *args, **kwargs)

    def visit_field(self, node: Any, value: Any) -> Any:
        """A field; if the value is a JSON text, a field of its content."""
        return super().visit_field(node, self._opened(value))

    def visit_index(self, node: Any, value: Any) -> Any:
        """An item; if the value is a JSON text, an item of its content."""
        return super().visit_index(node, self._opened(value))

    def visit_projection(self, node: Any, value: Any) -> Any:
        """What follows `[*]`, for each item."""
        return super().visit_projection(self._from_opened(node, value), value)

    def visit_filter_projection(self, node: Any, value: Any) -> Any:
        """What follows `[?…]`, for each item that satisfies the condition."""
        return super().visit_filter_projection(self._from_opened(node, value), value)

    def visit_value_projection(self, node: Any, value: Any) -> Any:
        """What follows `*`, for each value of an object."""
        return super().visit_value_projection(self._from_opened(node, value), value)

    def visit_flatten(self, node: Any, value: Any) -> Any:
        """The items of a list of lists as one list."""
        known = self._from_opened(node, value)
        (source,) = known["children"]
        if isinstance(source["value"], list):
            self._work.charge(sum(len(item) for item in source["value"] if isinstance(item, list)))
        return super().visit_flatten(known, value)

    def visit_slice(self, node: Any, value: Any) -> Any:
        """A part of a list."""
        self._work.charge(len(value) if isinstance(value, list) else 0)
        return super().visit_slice(node, value)

    def visit_comparator(self, node: Any, value: Any) -> Any:
        """The result of a comparison; comparing large values is charged."""
        left, right = (self.visit(child, value) for child in node["children"])
        if isinstance(left, list | dict | str) and isinstance(right, list | dict | str):
            self._work.charge_values([left, right])
        known: Any = {**node, "children": [_literal(left), _literal(right)]}
        return super().visit_comparator(known, value)

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        """The result of a function; a fault in it is placed at its name."""
        try:
            return super().visit_function_expression(node, value)
        except Fault as fault:
            raise type(fault)(fault.message, node["at"] if fault.at is None else fault.at) from None
        except JMESPathError as error:
            raise Fault(_error_text(node["value"], error), node["at"]) from None
        except _WRONG as error:
            raise Fault(f"{node['value']}() cannot be applied to this: {error}", node["at"]) from None

    def _from_opened(self, node: Any, value: Any) -> Any:
        """The node with the operand replaced by its value, parsed if it is JSON text."""
        source, *rest = node["children"]
        return {**node, "children": [_literal(self._opened(self.visit(source, value))), *rest]}

    def _opened(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        self._work.charge_text(len(value))
        return opened(value)


def _literal(value: Any) -> Any:
    return {"type": "literal", "children": [], "value": value}


def _error_text(name: str, error: JMESPathError) -> str:
    if isinstance(error, JMESPathTypeError):
        wanted = " or ".join(str(kind) for kind in error.expected_types)
        return f"{name}() was given {kind_of(error.current_value)}, not {wanted}"
    return str(error) if isinstance(error, ArityError) else f"{name}() cannot be applied to this"


def opened(data: Any) -> Any:
    """The list or object in a JSON text; any other value as it is."""
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
        is_json, parsed = parse_json(data)
        return parsed if is_json else data
    return data


def parameters_of(tree: Any) -> tuple[str, ...]:
    """The parameters that a compiled query reads, each once."""
    values = (node.get("value") for node, _ in _nodes(tree) if node["type"] == "literal")
    return tuple(dict.fromkeys(value.name for value in values if isinstance(value, Parameter)))


def search(data: JSON, query: str, work: Work, bound: Mapping[str, JSON] | None = None) -> JSON:
    """The result of a query, of which `bound` are the parameters; raises Fault."""
    tree = compiled(query)
    given = bound or {}
    wanted = parameters_of(tree)
    for name in wanted:
        if name not in given:
            raise Fault(f"the query reads ${name}, which is not given: write {name}=… beside it")
    for name in given:
        if name not in wanted:
            meant = did_you_mean(name, wanted, 1)
            hint = f"; did you mean {meant[0]}?" if meant else f": the query has no ${name}"
            raise Fault(f"{name} is not a parameter of the query{hint}")
    try:
        result = _Interpreter(work, given).visit(tree, opened(data))
        return _Settling(work).settled(result, 0)
    except _WRONG as error:
        message = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Fault(f"the query cannot be applied to this data: {message}") from None


class _Settling:
    """Copies a result to plain JSON, within the limits of size."""

    def __init__(self, work: Work) -> None:
        self._items, self._characters, self._work = MAX_RESULT_ITEMS, MAX_RESULT_CHARACTERS, work

    def settled(self, value: Any, depth: int) -> JSON:
        """A copy of the value; raises Fault if it is too large or not JSON."""
        self._items -= 1
        self._work.charge(1)
        if isinstance(value, str):
            self._take(value)
            return value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if depth > MAX_RESULT_DEPTH or self._items < 0:
            raise Fault("the result is nested too deeply" if self._items >= 0 else _TOO_LARGE)
        if isinstance(value, list):
            return [self.settled(item, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            pairs = cast("dict[Any, Any]", value)
            return {self._take(str(key)): self.settled(item, depth + 1) for key, item in pairs.items()}
        raise Fault("the query returns an expression (&…), which is not a value")

    def _take(self, text: str) -> str:
        self._characters -= len(text)
        if self._characters < 0:
            raise Fault(_TOO_LARGE)
        return text


_TOO_LARGE = f"the result has more than {MAX_RESULT_ITEMS:,} values or {MAX_RESULT_CHARACTERS:,} characters"


def _number(value: int | float) -> JSON:
    if isinstance(value, float) and not math.isfinite(value):
        raise Fault("the result contains a number that is too large")
    if isinstance(value, int) and not -_LARGEST < value < _LARGEST:
        raise Fault("the result contains an integer of more than 4,000 digits")
    return value
