"""A large run is excluded from garbage collection from its preparation to its end, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from callsheet.apps.hosting.collector import LARGE, CollectorControl, CollectorHold
from callsheet.runtime.offloading import at_once


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.enable()
    gc.unfreeze()


def state() -> tuple[bool, bool]:
    return gc.isenabled(), bool(gc.get_freeze_count())


def test_collection_stops_while_a_large_run_is_prepared_and_excludes_it_until_its_end():
    hold = CollectorHold(CollectorControl(), LARGE)
    assert state() == (True, False)
    hold.begin()
    hold.begin()
    assert state() == (False, False)
    hold.built(LARGE)
    assert state() == (True, True)
    hold.built(LARGE)
    hold.release()
    hold.release()
    assert state() == (True, False)


def test_for_a_small_run_nothing_is_done():
    hold = CollectorHold(CollectorControl(), LARGE - 1)
    hold.begin()
    assert state() == (True, False)
    hold.built(LARGE - 1)
    hold.release()
    assert state() == (True, False)


def test_a_run_that_nobody_knows_counts_as_large_until_it_is_known():
    hold = CollectorHold(CollectorControl())
    hold.begin()
    assert state() == (False, False)
    hold.built(1)
    assert state() == (True, False)


@pytest.mark.parametrize("steps", [LARGE, None])
def test_a_run_that_is_given_up_lets_go(steps):
    hold = CollectorHold(CollectorControl(), steps)
    hold.begin()
    hold.release()
    assert state() == (True, False)


def test_collection_resumes_when_the_last_of_two_holds_ends():
    control = CollectorControl()
    first, second = CollectorHold(control, LARGE), CollectorHold(control, LARGE)
    first.begin()
    second.begin()
    first.built(LARGE)
    assert state() == (False, True)
    second.built(LARGE)
    first.release()
    assert state() == (True, True)
    second.release()
    assert state() == (True, False)


async def test_what_is_made_later_is_kept_as_well_whatever_it_raises():
    hold = CollectorHold(CollectorControl(), LARGE)
    hold.built(LARGE)
    assert await hold.beside(at_once, gc.isenabled) is False

    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await hold.beside(at_once, fails)
    assert state() == (True, True)
    hold.release()
    assert state() == (True, False)


def test_a_collector_that_somebody_has_turned_off_stays_off():
    gc.disable()
    hold = CollectorHold(CollectorControl(), LARGE)
    hold.begin()
    hold.built(LARGE)
    hold.release()
    assert not gc.isenabled()
