"""Garbage collection is paused while much is built; its cost does not depend on other live objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from callsheet.ir import gc_pause
from callsheet.ir.gc_pause import gc_paused


@pytest.fixture(autouse=True)
def _collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gc_pause, "_freezing", type(gc_pause._freezing)())
    assert gc.isenabled()
    gc.unfreeze()
    yield
    gc.unfreeze()
    assert gc.isenabled()


def test_collection_is_disabled_inside_context() -> None:
    with gc_paused(True):
        assert not gc.isenabled()


def test_many_new_objects_are_moved_to_oldest_generation() -> None:
    with gc_paused(True):
        kept = [[number] for number in range(200_000)]
        assert gc.get_count()[0] >= len(kept)
    assert gc.get_count()[0] < 1_000
    assert gc.get_freeze_count() == 0


def test_small_allocations_do_not_scan_objects() -> None:
    with patch("gc.get_freeze_count") as asked, gc_paused(True):
        pass
    asked.assert_not_called()


def test_objects_frozen_by_others_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with gc_paused(True):
        kept = [[number] for number in range(200_000)]
    assert len(kept) == 200_000
    assert gc.get_freeze_count() > frozen // 2


def test_frozen_objects_are_counted_once() -> None:
    gc.freeze()
    with patch("gc.get_freeze_count", wraps=gc.get_freeze_count) as counted:
        for _ in range(3):
            with gc_paused(True):
                kept = [[number] for number in range(20_000)]
            del kept
    assert counted.call_count == 1
