"""Random programs of the subset do the same as plans and on CPython; none is refused."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.python.generator import FailingGenerator, Generator, SharingGenerator
from tests.frontends.python.office import cpython, interpreted, on_machine, read


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


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_change_of_shared_object_is_that_of_cpython_or_refused(seed: int) -> None:
    source = SharingGenerator(Random(seed)).program()
    try:
        ended, made = interpreted(source, {})
    except RecursionError:  # a list that is in itself
        return
    wanted, calls = cpython(source, {})
    if ended[0] == "refused" or "RecursionError" in (ended[1], wanted[1]):  # a list in itself
        return
    assert ended == wanted
    assert made == calls


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_failing_pieces_have_changed_is_that_of_cpython_or_refused(seed: int) -> None:
    source = FailingGenerator(Random(seed)).program()
    ended, made = on_machine(source)
    if ended[0] == "refused":
        return
    wanted, calls = cpython(source, {})
    assert ended[0] == wanted[0]
    assert made == calls
    if wanted[0] == "returned":
        assert ended == wanted


def test_enough_failing_programs_are_understood() -> None:
    seeds = range(20)
    ends = [interpreted(FailingGenerator(Random(seed)).program(), {})[0][0] for seed in seeds]
    assert sum(end != "refused" for end in ends) > 12


def test_enough_programs_with_shared_objects_are_understood() -> None:
    sources = [SharingGenerator(Random(seed)).program() for seed in range(60)]
    plans = [read(source).plan for source in sources]
    assert sum(plan is not None for plan in plans) > 26
