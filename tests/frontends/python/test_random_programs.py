"""Random programs of the subset do the same as plans and on CPython; none is refused."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.python.generator import Generator
from tests.frontends.python.office import cpython, interpreted


def _sorted(calls: list[Any]) -> list[str]:
    return sorted(map(repr, calls))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_does_what_cpython_does(seed: int) -> None:
    source = Generator(Random(seed)).program()
    wanted, calls = cpython(source, {})
    ended, made = interpreted(source, {})
    assert ended == wanted
    if "gather" in source:
        assert _sorted(made) == _sorted(calls)  # what starts together has no order
    else:
        assert made == calls
