"""The verdict on a case: the differences between what it expects and what its rehearsal has done.

In: a case, its rehearsal. Out: differences, each with the step of the plan that it is about; none if all is
as expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never

from callsheet.ir import JSON
from callsheet.testing.case import UNSAID, Case, ExpectedCall, Order
from callsheet.testing.fakes import same
from callsheet.testing.rehearsal import MadeCall, Rehearsal, call_text

_MOST = 160
"""The characters that are shown of a value."""


class Difference(NamedTuple):
    """One thing that is not as expected, in words of one or more lines; `step` is "" if it is about none."""

    text: str
    step: str = ""


def differences(case: Case, rehearsal: Rehearsal) -> tuple[Difference, ...]:
    """Everything in which a rehearsal is not what its case expects."""
    return tuple(_differences(case, rehearsal))


def refusal_differences(case: Case, why: str) -> tuple[Difference, ...]:
    """What a case expects of a plan that the policy has refused before it ran, and that is not so."""
    found: list[Difference] = []
    if case.error is not None and case.error not in why:
        found.append(Difference(f"error: expected {case.error!r} in it, was {_shown(why)}"))
    expected = {
        "answer": case.answer is not UNSAID,
        "message": case.message is not None,
        "variables": bool(case.variables),
        "failed steps": bool(case.failed_steps),
    }
    found += [
        Difference(f"{what}: expected, but the policy has refused the plan before it ran")
        for what, is_expected in expected.items()
        if is_expected
    ]
    found += differing_calls(case.calls or (), (), case.order)
    found += [Difference(f"nobody was asked {reply.to!r}") for reply in case.replies]
    return tuple(found)


def _differences(case: Case, done: Rehearsal) -> Iterator[Difference]:
    result = done.result
    yield from (Difference(text, step) for step, text in done.problems)
    if done.status != case.outcome:
        why = result.error or ("" if result.status == "done" else result.response)
        told = f": {_shown(why)}" if why else ""
        yield Difference(f"outcome: expected {case.outcome}, was {done.status}{told}", result.ended_at or "")
    if case.error is not None and case.error not in (result.error or ""):
        yield Difference(
            f"error: expected {case.error!r} in it, was {_shown(result.error)}", result.ended_at or ""
        )
    if case.answer is not UNSAID:
        if result.answer is None and isinstance(case.answer, str):
            given: JSON = result.response
        else:
            given = done.answer
        lines = [*differing(case.answer, given, "answer")]
        if lines:
            yield Difference("\n".join(lines), result.ended_at or "")
    if case.message is not None and case.message not in result.response:
        text = f"message: expected {case.message!r} in it, was {_shown(result.response)}"
        yield Difference(text, result.ended_at or "")
    if case.calls is not None:
        yield from differing_calls(case.calls, done.calls, case.order)
    for name, value in case.variables.items():
        if name not in result.variables:
            yield Difference(f"${name}: expected {_shown(value)}, was not set")
        else:
            yield from map(Difference, differing(value, result.variables[name], f"${name}"))
    if case.failed_steps is not None and case.failed_steps != result.failed_steps:
        expected, were = ", ".join(case.failed_steps), ", ".join(result.failed_steps)
        yield Difference(f"failed steps: expected {expected or 'none'}, were {were or 'none'}")
    if case.seconds is not None and done.seconds > case.seconds:
        yield Difference(f"time: expected at most {case.seconds:g} s, took {done.seconds:g} s")
    for reply in done.unused:
        yield Difference(f"nobody was asked {reply.to!r}")


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
                yield f"{place}.{name}: expected {_shown(value)}, is missing"
            else:
                yield from _differing(value, was[name], f"{place}.{name}")
        for name in (name for name in was if name not in expected):
            yield f"{place}.{name}: not expected, was {_shown(was[name])}"
    elif isinstance(expected, list) and isinstance(was, list) and len(expected) == len(was):
        for number, (one, other) in enumerate(zip(expected, was, strict=True)):
            yield from _differing(one, other, f"{place}[{number}]")
    elif not same(expected, was):
        yield f"{place}: expected {_shown(expected)}, was {_shown(was)}"


def _shown(value: JSON | Mapping[str, JSON]) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}… ({len(text):,} characters)"
