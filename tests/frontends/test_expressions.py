"""Expressions of version 2 as text: what is read, how it is printed, and what a wrong one is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.expressions import EXPRESSIONS

from callsheet.frontends.expressions import NotAnExpression, format_expression, read_expression
from callsheet.ir.expression import (
    Bound,
    Expression,
    Text,
    children,
    nodes,
    variables_in,
)

# ---------------------------------------------------------------- round trips


@settings(max_examples=500, deadline=None)
@given(EXPRESSIONS)
def test_printed_expression_is_read_back(node: Expression) -> None:
    try:
        text = format_expression(node)
    except ValueError:
        assert texts_inside(node) > 4
        return
    again = read_expression(text).expression
    assert again == node, text
    assert format_expression(again) == text


def texts_inside(node: Expression) -> int:
    is_text = isinstance(node, Text) or isinstance(getattr(node, "value", None), str)
    return max(map(texts_inside, children(node)), default=0) + is_text


def test_texts_nest_in_braces() -> None:
    text = '"""a ${\'b ${"c" + $d}\'}"""'
    assert format_expression(read_expression(text).expression) == text


# ---------------------------------------------------------------- readings


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("$a+1", "$a + 1"),
        ("(($a))", "$a"),
        ("$a.0.b", "$a[0].b"),
        ("$a [0]", None),
        ("- 1", "-1"),
        ("-(1)", "-(1)"),
        ("not($a)", "not $a"),
        ("$a and ($b or $c)", "$a and ($b or $c)"),
        ("($a and $b) and $c", "$a and $b and $c"),
        ("$a ?? $b + 1", "$a ?? ($b + 1)"),
        ("$a > $b ?? $c", "$a > ($b ?? $c)"),
        ("not $a ?? $b or $c ?? 1 in $d", "not ($a ?? $b) or ($c ?? 1) in $d"),
        ("$a ?? 1 if $b else $c ?? 2", "($a ?? 1) if $b else ($c ?? 2)"),
        ("$a ?? $b ?? [$c ?? 1]", "$a ?? $b ?? [$c ?? 1]"),
        ("$a ?? ($b == 1)", "$a ?? ($b == 1)"),
        ("2 ** -1", "2 ** -1"),
        ("(-2) ** 2", "(-2) ** 2"),
        ("'it\\'s'", '"it\'s"'),
        ("[1,2,]", "[1, 2]"),
        ("(1,)", "(1,)"),
        ("{}", "{}"),
        ("max($r, key=len)", "max($r, key=lambda x: len(x))"),
        ("\"${ name.first ?? 'x' }\"", "\"${$name.first ?? 'x'}\""),
        ("sum(x for x in $xs)", "sum(x for x in $xs)"),
        ("[\n 1, # one\n 2\n]", "[1, 2]"),
    ],
)
def test_canonical_spelling(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(NotAnExpression):
            read_expression(text)
        return
    assert format_expression(read_expression(text).expression) == printed


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("$a + 1 ON_FAIL CONTINUE", 6),
        ("$a > 2) {", 6),
        ("len($a) # why", 7),
        ("$x\nS2: @A ()", 2),
        ("$a is None, 2", 10),
    ],
)
def test_expression_ends_where_it_cannot_go_on(text: str, end: int) -> None:
    assert read_expression(text, is_whole=False).end == end


@pytest.mark.parametrize(
    ("text", "says", "help_", "place"),
    [
        ("$a && $b", "&& is written and", None, "&&"),
        ("$a = 1", "= is written ==", None, "="),
        ("$a +", "a value is missing here", None, ""),
        ('{**$a, "y": 2}', "'*' is not expected here", "dicts are joined with |", "*"),
        ("[1, *$a]", "'*' is not expected here", "lists are joined with +", "*"),
        ("a.b", "a is not known here", "$a", "a"),
        ("[x for y in $ys]", "x is not known here", "$x", "x"),
        ("lenn($a)", "there is no function lenn", "did you mean len?", "lenn"),
        ("$a.uper()", "there is no method uper", "did you mean upper?", "uper"),
        ("open($a)", "there is no function open", "a step of its own", "open"),
        ("lambda x: x", "only as a key", None, "lambda"),
        ("sorted($a, key=$b)", "a key is a lambda", None, "$"),
        ("$a if $b", "else is missing", None, ""),
        ("[x for $x in $xs]", "has no $", None, "$"),
        ('f"{x}"', "no prefix f", '"${x:.2f}"', "f"),
        ('"${a"', "the } of ${ is missing", "\\$", "${"),
        ('"${a + 1}"', "a is not known here", "$a", "a"),
        ('"${"x"}"', "the } of ${ is missing", "other kind of quote", "${"),
        ('"a', "not closed", None, '"'),
        ('"\\d"', "\\d is not an escape", "raw text", "\\d"),
        ("007", "does not begin with 0", None, "007"),
        ("12abc", "not a number", None, "12a"),
        ("$a is 3", "compares with None only", None, "3"),
        ("{1: 2, 1: 3}", "given twice", None, "{1: 2, 1: 3}"),
        ("len($a, x=1, x=2)", "x is given twice", None, "x"),
        ("len(x=1, 2)", "stands before the named ones", None, "2"),
        ("$a?", "? stands behind a field", None, "?"),
        ("(" * 100 + "1" + ")" * 100, "nest more than 60", "LET", "("),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, says: str, help_: str | None, place: str) -> None:
    with pytest.raises(NotAnExpression) as caught:
        read_expression(text)
    error = caught.value
    assert says in error.message
    assert help_ is None or help_ in (error.help or "")
    assert text[error.span.start : error.span.end].startswith(place)


@settings(max_examples=300, deadline=None)
@given(st.text("$ab.?[](){}\"'+-*/<>=!,:; 01iflenotr\\\n#", max_size=40))
def test_any_text_is_an_expression_or_is_told_why_not(text: str) -> None:
    try:
        node = read_expression(text).expression
    except NotAnExpression as error:
        span = error.span
    else:
        span = None
        assert read_expression(format_expression(node)).expression == node
    assert span is None or 0 <= span.start <= span.end <= len(text) + 1


def test_variables_are_listed_in_order() -> None:
    node = read_expression('[x + $b for x in $a if "${c}"] + $b').expression
    assert variables_in(node) == ("b", "a", "c")
    assert sum(isinstance(one, Bound) for one in nodes(node)) == 1


def test_comparisons_in_a_row_have_an_end() -> None:
    read_expression("$a" + " < $b" * 100)
    with pytest.raises(NotAnExpression, match="at most 100 comparisons stand in a row"):
        read_expression("$a" + " < $b" * 101)


@pytest.mark.parametrize("rest", [" + 1", ".b", "[0]", ".strip()"])
def test_operations_in_a_row_have_an_end(rest: str) -> None:
    read_expression("$a" + rest * 99)
    for text in (f"$a{rest * 101}", f'"${{$a{rest * 101}}}"', f"$a{rest * 20_000}"):
        with pytest.raises(NotAnExpression, match="at most 100 operations one inside the other"):
            read_expression(text)
