"""Calls and values of a test, those expected and those made, and how they differ.

In: the calls that a case or a test expects, those that its run has made. Out: the differences, in words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, assert_never

from callsheet.ir import JSON, canonical_tool_name
from callsheet.testing.fakes import same

Order: TypeAlias = Literal["exact", "any", "some"]
_MOST = 160
"""The characters that are shown of a value."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that a case expects; `args` are all of its arguments, None if they do not matter."""

    tool: str
    args: Mapping[str, JSON] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool", canonical_tool_name(self.tool))


class MadeCall(NamedTuple):
    """A call that a rehearsed run has made: of a tool, a model operation or an agent, at `at` seconds.

    `inputs` are the values of a model operation without a name. `error` is why it failed, "" if it did not.
    """

    step: str
    tool: str
    args: dict[str, JSON]
    inputs: tuple[JSON, ...] = ()
    answer: JSON = None
    error: str = ""
    at: float = 0.0


class Difference(NamedTuple):
    """One thing that is not as expected, in words of one or more lines; `step` is "" if it is about none."""

    text: str
    step: str = ""


def differing_calls(
    expected: Sequence[ExpectedCall], made: Sequence[MadeCall], order: Order
) -> tuple[Difference, ...]:
    """How the calls of a run differ from those expected."""
    match order:
        case "exact":
            return tuple(_in_order(expected, made))
        case "any":
            return tuple(_as_a_set(expected, made))
        case "some":
            return tuple(_among(expected, made))
    assert_never(order)


def _in_order(expected: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> Iterator[Difference]:
    """The first call that differs, with what differs in it; then those that are missing or too many."""
    for number, (wanted, call) in enumerate(zip(expected, made, strict=False), 1):
        if _is(wanted, call):
            continue
        if wanted.tool != call.tool:
            text = f"call {number}: expected {_expected(wanted)}\nbut it was {_made(call)}"
        else:
            lines = differing(dict(wanted.args or {}), call.args, f"call {number} @{call.tool}")
            text = "\n".join(lines)
        yield Difference(text, call.step)
        return
    for number, wanted in enumerate(expected[len(made) :], len(made) + 1):
        yield Difference(f"call {number}: expected {_expected(wanted)}, was not made")
    for number, call in enumerate(made[len(expected) :], len(expected) + 1):
        yield Difference(f"call {number}: not expected: {_made(call)}", call.step)


def _as_a_set(expected: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> Iterator[Difference]:
    left = list(made)
    for wanted in sorted(expected, key=lambda one: one.args is None):  # those that fit any arguments last
        found = next((call for call in left if _is(wanted, call)), None)
        if found is None:
            yield Difference(f"the call {_expected(wanted)} was not made")
        else:
            left.remove(found)
    yield from (Difference(f"a call that was not expected: {_made(call)}", call.step) for call in left)


def _among(expected: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> Iterator[Difference]:
    rest = iter(made)
    for number, wanted in enumerate(expected):
        if not any(_is(wanted, call) for call in rest):
            after = f" after {_expected(expected[number - 1])}" if number else ""
            yield Difference(f"the call {_expected(wanted)} was not made{after}")
            return


def _is(wanted: ExpectedCall, call: MadeCall) -> bool:
    if wanted.tool != call.tool:
        return False
    return wanted.args is None or same(dict(wanted.args), call.args)


def _expected(wanted: ExpectedCall) -> str:
    return f"@{wanted.tool}" if wanted.args is None else call_text(wanted.tool, wanted.args)


def _made(call: MadeCall) -> str:
    return call_text(call.tool, call.args, call.inputs)


def differing(expected: JSON, was: JSON, place: str) -> Iterator[str]:
    """The lines that say where a value differs, at most ten.

    >>> list(differing({"a": [1, 2]}, {"a": [1, 3], "b": 0}, "answer"))
    ['answer.a[1]: expected 2, was 3', 'answer.b: not expected, was 0']
    """
    for number, line in enumerate(_differing(expected, was, place)):
        if number == 10:
            yield f"{place}: and more"
            return
        yield line


def _differing(expected: JSON, was: JSON, place: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(was, dict):
        for name, value in expected.items():
            if name not in was:
                yield f"{place}.{name}: expected {shown(value)}, is missing"
            else:
                yield from _differing(value, was[name], f"{place}.{name}")
        for name in (name for name in was if name not in expected):
            yield f"{place}.{name}: not expected, was {shown(was[name])}"
    elif isinstance(expected, list) and isinstance(was, list) and len(expected) == len(was):
        for number, (one, other) in enumerate(zip(expected, was, strict=True)):
            yield from _differing(one, other, f"{place}[{number}]")
    elif not same(expected, was):
        yield f"{place}: expected {shown(expected)}, was {shown(was)}"


def shown(value: JSON | Mapping[str, JSON]) -> str:
    """A value as JSON, its beginning if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}… ({len(text):,} characters)"


def call_text(tool: str, args: Mapping[str, JSON], inputs: Sequence[JSON] = ()) -> str:
    """A call as a plan writes it.

    >>> call_text("LIST_ISSUES", {"repo": "a/b", "limit": 3})
    '@LIST_ISSUES (repo="a/b", limit=3)'
    """
    parts = [json.dumps(value, ensure_ascii=False, default=str) for value in inputs]
    parts += [f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in args.items()]
    text = f"@{tool} ({', '.join(parts)})"
    return text if len(text) <= 300 else text[:299] + "…"
