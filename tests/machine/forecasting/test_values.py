"""Known values are evaluated as by the machine; what depends on unknown ones stays undecided."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.forecasting.test_against_runs import fits
from tests.strategies import conditions, values

from callsheet.ir import Cast, Condition, Value
from callsheet.ir.expr import refs_of
from callsheet.machine.closures import compile_condition, compile_value
from callsheet.machine.forecasting import Fields, Foreseen, Items, Text, Unknown
from callsheet.machine.forecasting.partial_values import at_path, cast_foreseen, emptiness, text_of
from callsheet.machine.forecasting.step_interpreter import decide, evaluate

DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "2", '{"a": [1]}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "0", "x"]), inner),
    max_leaves=5,
)


def world_of(node: Value | Condition, data: st.DataObject) -> dict[str, Any]:
    """A value for every variable that the node reads."""
    return {ref.name: data.draw(DATA) for ref in refs_of(node)}


@given(values(), st.data())
@settings(max_examples=150, deadline=None)
def test_value_of_known_variables_equals_machine_value(value: Value, data: st.DataObject) -> None:
    """evaluate == compile_value if nothing is unknown."""
    known = world_of(value, data)
    names = list(known)
    expected = compile_value(value, names.index)([known[name] for name in names])

    assert json.dumps(evaluate(value, known.__getitem__)) == json.dumps(expected)


@given(values(), st.data())
@settings(max_examples=150, deadline=None)
def test_value_of_unknown_variables_is_placeholder(value: Value, data: st.DataObject) -> None:
    """For every value of the unknown variables, the known parts of the value are correct."""
    known = world_of(value, data)
    hidden = {name for name in known if data.draw(st.booleans())}
    seen = evaluate(value, lambda name: Unknown(f"${name}") if name in hidden else known[name])

    assert fits(seen, evaluate(value, known.__getitem__))  # pyright: ignore[reportArgumentType]


@given(conditions(), st.data())
@settings(max_examples=300, deadline=None)
def test_condition_is_decided_like_machine_or_left_open(condition: Condition, data: st.DataObject) -> None:
    """decide is None, or the result of compile_condition for every value of the unknown variables."""
    known = world_of(condition, data)
    names = list(known)
    expected = compile_condition(condition, names.index)([known[name] for name in names])
    hidden = {name for name in known if data.draw(st.booleans())}
    verdict = decide(condition, lambda name: Unknown("x") if name in hidden else known[name])

    assert verdict in (None, expected)
    assert hidden or verdict is expected


def test_path_into_unknown_is_placeholder_with_path() -> None:
    assert str(at_path(Unknown("GET result", "S1"), ("items", 0))) == "<GET result.items.0>"


def test_path_crosses_known_to_unknown() -> None:
    value = Fields((("a", Items((1, Unknown("X result")))), ("b", 2)))

    assert at_path(value, ("a", 1, "c")) == Unknown("X result", path=("c",))
    assert at_path(value, ("b",)) == 2
    assert at_path(value, ("a", 7)) is None
    assert at_path(value, ("a", "name")) is None


def test_text_with_visible_characters_is_not_empty() -> None:
    assert emptiness(text_of(["a", Unknown("x")])) is False
    assert emptiness(text_of([" ", Unknown("x")])) is None
    assert emptiness(Items((Unknown("x"),))) is False


def test_cast_sets_type_of_placeholder() -> None:
    text: Foreseen = Text(("n: ", Unknown("x")))

    assert cast_foreseen(Cast.INT, Unknown("x")) == Unknown("x", kind="int")
    assert cast_foreseen(Cast.INT, "7") == 7
    assert cast_foreseen(None, text) is text
