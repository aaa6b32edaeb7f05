"""Runs that another version has recorded otherwise: it is said from where on they are not explained."""

from __future__ import annotations

from pathlib import Path

from callsheet.store import Journal
from callsheet.store.archive import import_runs
from callsheet.store.events import EventType
from callsheet.trace.lineage.lineage import differing
from callsheet.trace.lineage.record import lineage_of

RECORDED = Path(__file__).parents[2] / "store" / "recorded" / "asking.jsonl"


def test_question_that_was_asked_otherwise_is_named_with_its_event(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        with RECORDED.open("rb") as lines:
            import_runs(journal.parts, lines)
        info = journal.find_run("asking")
        plan = journal.plan_of(info.plan_hash)
        entries = list(journal.entries("asking"))
        assert differing(lineage_of(plan, entries, journal.plan_of)) == ""
        asked = next(n for n, e in enumerate(entries) if e.type == EventType.ASK and e.key == "S2.0.1")
        changed = dict(entries[asked].body or {}) | {"args": {"of": "another version"}, "digest": "0" * 64}
        entries[asked] = entries[asked]._replace(body=changed)
        lineage = lineage_of(plan, entries, journal.plan_of)
    assert differing(lineage).startswith(f"from event {entries[asked].seq} on the run is not explained")
    assert "question S2.0.1" in differing(lineage)
