"""The grammar of calls of callsheet's own operations: positional data, then named arguments.

In: the name of an operation and a scope. Out: a node for the text after the name, or None if the operation
needs a variable and the scope has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callsheet.frontends.export.rules import (
    Choice,
    Many,
    Node,
    Text,
    chars,
    choice,
    optional,
    separated,
    seq,
)
from callsheet.frontends.export.scope import Rules, Scope
from callsheet.frontends.export.values import arguments, integers


@dataclass(frozen=True, slots=True)
class Shape:
    """The least and most positional values, and the named arguments with whether each is required."""

    data: tuple[int, int] = (1, 3)
    named: tuple[tuple[str, bool], ...] = ()


OPERATIONS: Mapping[str, Shape] = {
    "LLM_EXTRACT": Shape(named=(("target", True),)),
    "LLM_CLASSIFY": Shape(named=(("categories", True),)),
    "LLM_SUMMARIZE": Shape(named=(("format", False),)),
    "LLM_ANALYZE": Shape(named=(("task", True),)),
    "LLM_EVALUATE": Shape(named=(("condition", True),)),
    "LLM_GENERATE": Shape(data=(0, 3), named=(("format", True),)),
    "LLM_TRANSLATE": Shape(data=(1, 1), named=(("target_lang", True),)),
    "AGENT_CRITIQUE": Shape(named=(("criteria", True), ("rounds", False))),
    "CONSENSUS": Shape(named=(("topic", True), ("rounds", False))),
    "SELF_REFINE": Shape(data=(1, 1), named=(("goal", True), ("rounds", False))),
    "AGENT_SOLVE": Shape(data=(0, 0), named=(("goal", True), ("max_turns", False))),
}
"""The operations of models and agents, with their arguments in an export."""

_WORD = seq(chars("A-Za-z_"), Many(chars("A-Za-z0-9_"), 0, 30))
_MOST_CATEGORIES = 8


def operation(name: str, rules: Rules, scope: Scope) -> Node | None:
    """The text after the name of an operation, from the blank on; None if it cannot be called.

    Raises ValueError for an unknown name.
    """
    match name:
        case "SELECT":
            data = rules.reference(scope)
            return None if data is None else seq(" (", data, ', query="', _query(rules), '")')
        case "CALC":
            return seq(' ("', _expression(rules, scope), '")')
        case "FORMAT":
            return seq(" (", rules.words(scope), ")")
        case _ if name in OPERATIONS:
            return _asked(OPERATIONS[name], rules, scope)
        case _:
            raise ValueError(f"{name} is not an operation that an export supports")


def _asked(shape: Shape, rules: Rules, scope: Scope) -> Node | None:
    least, most = shape.data
    data = separated(rules.words(scope), ", ", max(least, 1), most) if most else None
    named = arguments([(f"{name}=", _argument(name, rules, scope), must) for name, must in shape.named])
    has_required = any(must for _, must in shape.named)
    if data is None:
        return None if least or named is None else seq(" (", named, ")")
    if named is None:
        return seq(" (", data, ")")
    if not least:
        return seq(" (", optional(seq(data, ", ")), named, ")")
    return seq(" (", data, seq(", ", named) if has_required else optional(seq(", ", named)), ")")


def _argument(name: str, rules: Rules, scope: Scope) -> Node:
    match name:
        case "categories":
            listed = separated(rules.text(Scope(), 1, 40), ", ", 2, _MOST_CATEGORIES)
            return seq("[", listed or "", "]")
        case "rounds" | "max_turns":
            return rules.shared("number", integers(1, 20), is_token=True) or seq("1")
        case _:
            return rules.words(scope)


# ---------------------------------------------------------------- queries


def _query(rules: Rules) -> Node:
    """A subset of JMESPath: fields, indexes, one filter, a multiselect, and functions around them."""
    word = rules.sure("word", lambda: _WORD, is_token=True)
    number = rules.sure("decimal", lambda: _DECIMAL, is_token=True)
    path = rules.sure("query-path", lambda: _query_path(word, number), is_token=True)

    def make() -> Node:
        one = _words("length", "sum", "avg", "min", "max", "sort", "reverse", "keys", "values", "unique")
        by = _words("sort_by", "max_by", "min_by", "group_by")
        joined = Many(chars("A-Za-z,;:/ -"), 0, 4)
        return Choice(
            (
                path,
                seq(one, "(", path, ")"),
                seq(by, "(", Choice((path, Text("@"))), ", &", word, ")"),
                seq("join('", joined, "', ", path, ")"),
            )
        )

    return rules.sure("query", make, is_token=True)


def _query_path(word: Node, number: Node) -> Node:
    plain = Many(chars("A-Za-z0-9 _.:/@%+-"), 0, 60)
    written = Choice(
        (seq("'", plain, "'"), seq("`", optional(Text("-")), number, "`"), _words("`true`", "`false`"))
    )
    compared = seq(word, _words(" == ", " != ", " >= ", " <= ", " > ", " < "), written)
    test = Choice((compared, seq("contains(", word, ", '", plain, "')")))
    tests = seq(test, optional(seq(_words(" && ", " || "), test)))
    fields = seq(word, Many(seq(".", word), 0, 2))
    items = Choice((Text("[]"), Text("[*]"), seq("[?", tests, "]")))
    index = Choice((Text("[0]"), Text("[-1]"), seq("[:", chars("1-9"), "]")))
    field = seq(word, ": ", fields)
    shape = seq("{", field, Many(seq(", ", field), 0, 3), "}")
    picked = optional(seq(".", Choice((fields, shape))))
    named = seq(fields, optional(seq(Choice((items, index)), picked)))
    return Choice((named, seq(items, picked), index))


def _words(*words: str) -> Node:
    return Choice(tuple(Text(word) for word in words))


# ---------------------------------------------------------------- arithmetic


def _expression(rules: Rules, scope: Scope) -> Node:
    """Arithmetic with a few functions on numbers and references; no division by a literal zero."""
    return rules.scoped("expression", scope, lambda some: _sum(rules, some), is_token=True) or seq()


def _sum(rules: Rules, scope: Scope) -> Node:
    number = rules.sure("decimal", lambda: _DECIMAL, is_token=True)
    reference = rules.reference(scope)
    term = rules.shared("term", choice(number, reference), is_token=True) or number
    divisor = choice(_NOT_ZERO, reference) or _NOT_ZERO
    signs = _words(" + ", " - ", " * ")
    behind = Choice((seq(signs, term), seq(" / ", divisor)))
    more = rules.sure(f"more-{scope.name}", lambda: behind, is_token=True)
    plain = seq(term, Many(more, 0, 3))
    grouped = seq("(", plain, ")", Many(more, 0, 3))
    after = seq(term, signs, "(", plain, ")")
    several = _words("sum", "min", "max", "avg", "count")
    called = None if reference is None else seq(several, "(", reference, ")", Many(more, 0, 2))
    sums = Choice((plain, grouped, after, *([] if called is None else [called])))
    inner = rules.sure(f"sum-{scope.name}", lambda: sums, is_token=True)
    return Choice((inner, seq("round(", inner, ", ", chars("0-6"), ")")))


_WHOLE = Choice((Text("0"), seq(chars("1-9"), Many(chars("0-9"), 0, 8))))
_DECIMAL = seq(_WHOLE, optional(seq(".", Many(chars("0-9"), 1, 4))))
_NOT_ZERO = seq(chars("1-9"), Many(chars("0-9"), 0, 5))
