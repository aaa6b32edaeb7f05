"""A large run is excluded from garbage collection from its preparation to its end, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from callsheet.apps.hosting.collector import LARGE, CollectorControl, CollectorHold
from callsheet.runtime.event_loop import at_once


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.enable()
    gc.unfreeze()


def state() -> tuple[bool, bool]:
    return gc.isenabled(), bool(gc.get_freeze_count())


def test_collection_is_paused_during_preparation_and_run_is_frozen_until_end():
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


def test_small_run_is_not_frozen():
    hold = CollectorHold(CollectorControl(), LARGE - 1)
    hold.begin()
    assert state() == (True, False)
    hold.built(LARGE - 1)
    hold.release()
    assert state() == (True, False)


def test_run_of_unknown_size_counts_as_large():
    hold = CollectorHold(CollectorControl())
    hold.begin()
    assert state() == (False, False)
    hold.built(1)
    assert state() == (True, False)


@pytest.mark.parametrize("steps", [LARGE, None])
def test_abandoned_run_is_unfrozen(steps):
    hold = CollectorHold(CollectorControl(), steps)
    hold.begin()
    hold.release()
    assert state() == (True, False)


def test_collection_resumes_when_last_of_two_holds_ends():
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


async def test_later_objects_are_frozen_despite_exceptions():
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


def test_disabled_collector_stays_disabled():
    gc.disable()
    hold = CollectorHold(CollectorControl(), LARGE)
    hold.begin()
    hold.built(LARGE)
    hold.release()
    assert not gc.isenabled()
