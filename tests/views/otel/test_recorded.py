"""Journals recorded by earlier builds, with crashes and questions, as spans."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.store.test_recorded import RECORDED
from tests.views.otel.telling import is_well_formed, steps, tell_run

from callsheet.store import Journal
from callsheet.store.archive import import_runs
from callsheet.views.otel.model import Span


@pytest.fixture(params=RECORDED, ids=lambda file: file.stem)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return imported(request.param, tmp_path)


def imported(file: Path, folder: Path) -> Path:
    """A journal with the recorded runs of a file."""
    path = folder / "journal.db"
    with Journal.open(path) as journal, file.open("rb") as lines:
        import_runs(journal.parts, lines)
    return path


def runs_in(path: Path) -> list[tuple[str, int]]:
    """The id and the number of processes of each run, at least one."""
    with Journal.open_to_read(path) as journal:
        found = [(info.run_id, info.epoch) for info in journal.runs()]
    assert found
    return found


def test_recorded_run_has_span_tree_per_process(recorded: Path) -> None:
    for run_id, epochs in runs_in(recorded):
        told = tell_run(recorded, run_id)
        is_well_formed(told)
        roots = [span for span in told.spans if not span.parent_id]
        assert len(roots) <= epochs
        numbers = [span.attributes["callsheet.segment"] for span in roots]
        assert numbers == list(range(1, len(roots) + 1))
        for before, root in pairwise(roots):
            assert is_linked(root, before, "resumed_from")
        for root in roots[:-1]:
            if "callsheet.run.status" in root.attributes:
                continue  # it had ended, and was taken up again
            left = {
                s.attributes.get("callsheet.step.status") for s in told.spans if s.parent_id == root.span_id
            }
            waits = "waiting" in left and "interrupted" not in left
            assert root.attributes["callsheet.segment.status"] == ("waiting" if waits else "interrupted")
        assert tell_run(recorded, run_id) == told


def test_interrupted_span_is_linked_to_its_continuation(recorded: Path) -> None:
    for run_id, _ in runs_in(recorded):
        spans = steps(tell_run(recorded, run_id))
        left = [s for s in spans if s.attributes.get("callsheet.step.status") in ("interrupted", "waiting")]
        for span in left:
            after = [other for other in spans if is_linked(other, span, "resumed_from")]
            assert len(after) <= 1
            for other in after:
                assert other.attributes["callsheet.step.id"] == span.attributes["callsheet.step.id"]


@pytest.mark.parametrize("name", ["asking", "doubts"])
def test_recorded_journal_contains_continued_span(name: str, tmp_path: Path) -> None:
    """Otherwise the test of links above would check nothing."""
    path = imported(next(file for file in RECORDED if file.stem == name), tmp_path)
    spans = [steps(tell_run(path, run_id)) for run_id, _ in runs_in(path)]
    assert any(is_linked(other, span, "resumed_from") for run in spans for span in run for other in run)


def is_linked(span: Span, to: Span, why: str) -> bool:
    return any(k.span_id == to.span_id and k.attributes["callsheet.link.type"] == why for k in span.links)
