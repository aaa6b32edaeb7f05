"""Reading, checking, compiling and drawing plans of version 2 takes time that grows with the plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.growth import TRIES, seconds

from callsheet.frontends.structured import read_structured
from callsheet.machine import compile_plan
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.passes import check
from callsheet.views.mermaid import mermaid


def _inputs(count: int) -> list[str]:
    return [f"INPUT $i{n}: int = {n}" for n in range(count)] + ["@RESPOND ($i0)"]


def _types(count: int) -> list[str]:
    return [f"TYPE T{n} = {{a: {f'T{n - 1}?' if n else 'int'}}}" for n in range(count)] + ["@RESPOND (1)"]


def _keys(count: int) -> list[str]:
    return ["LET $t = {", *(f'  "k{n}": {n},' for n in range(count)), "}", "@RESPOND ($t)"]


def _rows(count: int) -> list[str]:
    return ["LET $t = [", *(f'  {{"id": {n}, "name": "n{n}"}},' for n in range(count)), "]", "@RESPOND ($t)"]


def _words(count: int) -> list[str]:
    return ["LET $t = [", *(f'  ["w{n}"],' for n in range(count)), "]", "@RESPOND ($t)"]


def _sub_plans(count: int) -> list[str]:
    plans = [f"PLAN p{n} ($x: int) -> int {{\n  RETURN ($x)\n}}" for n in range(count)]
    return [*plans, *(f"S{n}: CALL p{n} (x=1) > $v{n}" for n in range(count)), "@RESPOND ($v0)"]


def _handlers(count: int) -> list[str]:
    handlers = [f"}} ON_FAIL K{n} {{\n  SET $r = {n}" for n in range(count)]
    return ["LET $r = 0", "TRY {", "  S1: @READ (x=1) > $v", *handlers, "}", "@RESPOND ($r)"]


@pytest.mark.parametrize("lines", [_inputs, _types, _keys, _rows, _words, _sub_plans, _handlers])
def test_eight_times_the_plan_takes_about_eight_times_as_long(lines: Callable[[int], list[str]]) -> None:
    def work(count: int) -> Callable[[], object]:
        text = "\n".join(["# ltp: 2", *lines(count), ""])

        def done() -> None:
            plan = read_structured(text).require()
            assert not any(one.is_error for one in check(plan))
            compile_plan(plan, OWN_FACTS)
            mermaid(plan)

        return done

    small, large = work(500), work(4_000)
    small()
    assert any(seconds(large) < 20 * seconds(small) + 0.05 for _ in range(TRIES))
