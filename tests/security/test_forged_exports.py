"""An export that somebody made up, with the right hashes, is refused where it would break what reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from callsheet import Runtime, tool
from callsheet.store import Journal, JournalError
from callsheet.store.archive import export_run, import_runs
from callsheet.store.events import GENESIS, NO_BODY, identify, link

Lines = list[dict[str, Any]]
COLUMNS = ("epoch", "type", "key", "step", "idx", "attempt", "ts", "mono")


@pytest.fixture
def exported(tmp_path: Path) -> Lines:
    @tool(effect="read")
    def look(what: str) -> str:
        return f"seen {what}"

    plan = 'S1: @LOOK (what="tea") > $a\nS2: @RESPOND ($a)'
    with Runtime([look], journal=tmp_path / "journal.db") as runtime:
        runtime.run_sync(plan, run_id="r1")
    with Journal.open(tmp_path / "journal.db") as journal:
        return [json.loads(line) for line in export_run(journal.parts, "r1")]


def forged(lines: Lines) -> list[bytes]:
    """The lines with matching hashes."""
    head, previous, made = lines[0]["run"], GENESIS, list[bytes]()
    for line in lines[:-1]:
        if "entry" in line:
            entry = line["entry"]
            numbers = [line["seq"], *(entry[name] for name in COLUMNS)]
            body = NO_BODY if entry["body"] is None else sha256(entry["body"].encode()).digest()
            intents = None if entry["intents"] is None else entry["intents"].encode()
            previous = link(previous, tuple(numbers), body, identify(head["run_id"], tuple(numbers)), intents)
            entry["hash"] = previous.hex()
        made.append(json.dumps(line).encode() + b"\n")
    count = sum("entry" in line for line in lines)
    digest = sha256(b"".join(made)).hexdigest()
    return [*made, json.dumps({"end": {"entries": count, "sha256": digest}}).encode() + b"\n"]


def new_body(number: int, change: Callable[[Any], Any]) -> Callable[[Lines], None]:
    """A change of the body of an entry."""

    def apply(lines: Lines) -> None:
        entry = [line["entry"] for line in lines if "entry" in line][number]
        entry["body"] = json.dumps(change(json.loads(entry["body"])))

    return apply


def new_field(kind: str, name: str, value: Any) -> Callable[[Lines], None]:
    """Another value in a column of the run, or of its second entry."""

    def apply(lines: Lines) -> None:
        rows = [line[kind] for line in lines if kind in line]
        rows[kind == "entry"][name] = value

    return apply


CHANGES = [
    *(new_field("run", name, value) for name in ("created", "updated") for value in (inf, nan, 1e300, -1)),
    new_field("run", "wake_at", "soon"),
    new_field("run", "parent_run", "\x1b[31m"),
    new_field("run", "core_version", 7),
    *(new_field("entry", name, value) for name in ("ts", "mono") for value in (inf, nan)),
    new_field("entry", "ts", 1e300),
    *(new_field("entry", "key", value) for value in (None, "S1", "S1.0.x")),
    new_field("entry", "attempt", "1"),
    new_field("plan", "title", 3),
    *(new_body(0, lambda body, other=other: other) for other in ([1], "x", 7, True)),
    *(
        new_body(0, lambda body, name=name, other=other: {**body, name: other})
        for name in ("facts", "launch", "inputs", "limits")
        for other in ([], "x", None, 7)
    ),
    new_body(1, lambda body: {}),
    new_body(1, lambda body: [1]),
    new_body(2, lambda body: "x"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_invalid_types_and_ranges_are_refused_and_nothing_is_imported(
    exported: Lines, tmp_path: Path, change: Callable[[Lines], None]
) -> None:
    lines = deepcopy(exported)
    change(lines)
    with Journal.open(tmp_path / "other.db") as journal:
        with pytest.raises(JournalError, match="JRN016"):
            import_runs(journal.parts, forged(lines))
        assert list(journal.runs()) == []


def test_valid_export_is_imported_unchanged(exported: Lines, tmp_path: Path) -> None:
    assert forged(deepcopy(exported))[:-1] == [json.dumps(line).encode() + b"\n" for line in exported[:-1]]
    with Journal.open(tmp_path / "other.db") as journal:
        import_runs(journal.parts, forged(exported))
        assert [run.run_id for run in journal.runs()] == ["r1"]
        assert journal.verify("r1") is None


CANARY = "Zk7-canary/val=ue+4711"
KEEPS = 'S1: @LOOK (what=$word) > $a\nS2: @LOOK (what="$a") > $b\nS3: @RESPOND ("done")'
LEAKS = 'S1: @LOOK (what=$word) > $a\nS2: @LOOK (what="$a") > $b\nS3: @RESPOND ($word)'


@pytest.mark.parametrize("keeps_the_old_form", [False, True])
def test_sealed_value_copied_into_forged_run_is_not_opened(tmp_path: Path, keeps_the_old_form: bool) -> None:
    """As by somebody who was given an export and returns a run of their own with its boxes."""
    seen: list[str] = []

    @tool(effect="unsafe")
    def look(what: str) -> str:
        seen.append(what)
        return f"seen {what}"

    path = tmp_path / "journal.db"
    with Runtime([look], journal=path) as runtime:
        runtime.run_sync(KEEPS, secrets={"word": CANARY}, run_id="r1")
        other = runtime.run_sync(LEAKS, {"word": "harmless"}, run_id="r2")
        assert other.response == "harmless"
    with Journal.open(path) as journal:
        mine = [json.loads(line) for line in export_run(journal.parts, "r1")]
        lines = [json.loads(line) for line in export_run(journal.parts, "r2")]
    start = json.loads(next(line["entry"] for line in mine if "entry" in line)["body"])
    sealed = start["sealed"]
    if keeps_the_old_form:
        del sealed["run"]
    lines[0]["run"] |= {"run_id": "r3", "status": "running"}
    new_body(0, lambda body: {**body, "inputs": start["inputs"], "sealed": sealed})(lines)
    entries = [line for line in lines if "entry" in line]
    lines.remove(entries[-1])  # its end
    lines[0]["run"]["head_seq"] = entries[-2]["seq"]
    made = forged(lines)
    assert CANARY.encode() not in b"".join(made)
    with Journal.open(path) as journal:
        import_runs(journal.parts, made)
    seen.clear()
    with Runtime([look], journal=path) as runtime:
        for use in (lambda: runtime.resume_sync("r3"), lambda: runtime.rerun_sync("r3", "S3")):
            with pytest.raises(JournalError, match="SEC004"):
                use()
    assert seen == []
