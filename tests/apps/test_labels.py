"""`callsheet labels`, and labels of files and facts in `runs export`, `import` and `prune`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Machine

OURS = """schema = 1
name = "ours"
extends = "workspace"
[sources]
"file:public/**" = { conf = "pub", integrity = "T" }
"""


@pytest.fixture
def left(machine: Machine) -> Machine:
    """A machine whose run `r` has copied a private file into a folder that the policy calls public."""
    machine.write("ours.toml", OURS)
    machine.write("notes.txt", "private")
    (machine.folder / "public").mkdir()
    plan = machine.plan(
        'S1: @READ_FILE ("notes.txt") > $n',
        'S2: @WRITE_FILE ("public/copy.txt", $n) > $w',
        'S3: @STORE_FACT ("the notes say $n") > $f',
        'S4: @SET_WM ("k", $n) > $k',
        'S5: @RESPOND ("done")',
    )
    result = machine("run", plan, "--policy", "ours.toml", "--run-id", "r")
    assert result.exit_code == 0, result.stderr
    return machine


def labels(machine: Machine, *more: str) -> dict[str, str]:
    return {
        f"{row['kind']} {row['name'][:20]}": row["label"] for row in machine.json("labels", "list", *more)
    }


def leaks(machine: Machine) -> bool:
    """Whether a later run treats the copy as public."""
    plan = machine.plan(
        'S1: @READ_FILE ("public/copy.txt") > $n', 'S2: @WEB_SEARCH ("$n") > $r ON_FAIL TERMINATE ("x")'
    )
    return machine("run", plan, "--policy", "ours.toml").exit_code != 3


@pytest.mark.parametrize("reads", ['@READ_FILE ("public/copy.txt")', '@QUERY_MEMORY ("notes")'])
def test_unrecorded_run_is_subject_to_stored_labels(left: Machine, reads: str) -> None:
    """The proof knows the label of the file; that of the fact is known once the run has found it."""
    left.write("lax.toml", OURS + '[defaults]\nmemory = "T/pub"\n')
    plan = left.plan(f"S1: {reads} > $n", 'S2: @WEB_SEARCH ("$n") > $r ON_FAIL TERMINATE ("let through")')
    assert left("run", plan, "--policy", "lax.toml", "--no-journal").exit_code == 3
    foretold = left("run", plan, "--policy", "lax.toml", "--no-journal", "--dry-run").exit_code
    assert foretold == (3 if "READ_FILE" in reads else 0)


def test_confusable_reader_name_is_reported(left: Machine) -> None:
    slip = left("labels", "set", "public/copy.txt", "U/prvi")
    assert slip.exit_code == 0
    assert "prvi is read as an audience of a policy; did you mean priv?" in slip.stderr
    assert "did you mean" not in left("labels", "set", "public/copy.txt", "U/books+user").stderr


def test_labels_written_by_run_are_listed(left: Machine) -> None:
    found = labels(left)
    assert found.pop("file public/copy.txt") == "U/priv"
    assert found.pop("note k") == "U/priv"
    ((name, label),) = found.items()
    assert (name[:5], label) == ("fact ", "U/priv")
    assert labels(left, "--run", "r").keys() == labels(left).keys()
    assert f"U/priv     file  public/copy.txt  in {left.folder}" in left("labels", "list").stdout
    assert not leaks(left)


def test_label_is_set_and_removed_by_hand(left: Machine) -> None:
    result = left("labels", "set", "public/../PUBLIC/copy.txt", "T/secret")
    assert (result.exit_code, "U/priv → T/secret" in result.stderr) == (0, True)
    assert labels(left)["file public/copy.txt"] == "T/secret"
    assert left("labels", "set", "public/copy.txt", "T/pub").exit_code == 0
    assert leaks(left)
    assert left("labels", "forget", "public/copy.txt").exit_code == 0
    assert left("labels", "forget", "public/copy.txt").exit_code == 1
    assert left("labels", "forget", "--fact", "the notes say private").exit_code == 0
    assert set(labels(left)) == {"note k"}


def test_invalid_labels_and_places_are_refused(machine: Machine) -> None:
    for line in (("a.txt", "private"), ("../a.txt", "T/pub"), ("/etc/passwd", "T/pub")):
        result = machine("labels", "set", *line)
        assert (result.exit_code, "CFG010" in result.stderr) == (2, True)
    assert machine("labels", "list").exit_code == 0
    assert not machine.journal.with_name("journal.db-labels").exists(), "looking makes no file"


def test_export_has_labels_and_import_only_raises_known_ones(left: Machine, tmp_path: Path) -> None:
    assert left("runs", "export", "r", "-o", "r.jsonl").exit_code == 0
    other = ("--journal", "other/journal.db")
    (left.folder / "other").mkdir()
    assert left("labels", "set", "public/copy.txt", "T/secret", *other).exit_code == 0
    result = left("runs", "import", "r.jsonl", *other)
    assert result.exit_code == 0, result.stderr
    assert labels(left, *other)["file public/copy.txt"] == "U/secret"
    assert labels(left, *other).keys() == labels(left).keys()
    assert labels(left, "--run", "r", *other).keys() == labels(left).keys()


def test_invalid_labels_refuse_import(left: Machine) -> None:
    left("runs", "export", "r", "-o", "r.jsonl")
    text = (left.folder / "r.jsonl").read_text()
    left.write("bad.jsonl", text.replace('"U/priv"]]}', '"X/priv"]]}'))
    result = left("runs", "import", "bad.jsonl", "--journal", "other.db")
    assert (result.exit_code, "JRN016" in result.stderr) == (2, True)


def test_prune_removes_labels_of_missing_files_and_runs(left: Machine) -> None:
    assert left.json("runs", "prune")["labels"] == []
    (left.folder / "public" / "copy.txt").unlink()
    told = left.json("runs", "prune", "--dry-run")["labels"]
    assert [(row["name"], row["label"]) for row in told] == [("public/copy.txt", "U/priv")]
    assert len(labels(left)) == 3
    told = left("runs", "prune", "--done", "0h")
    assert "2 labels of deleted files and notes" in told.stderr
    (kept,) = labels(left)
    assert kept.startswith("fact ")


def test_missing_workspace_keeps_its_labels(left: Machine) -> None:
    (left.folder / "elsewhere").mkdir()
    assert left("labels", "set", "a.txt", "T/secret", "--workspace", "elsewhere").exit_code == 0
    (left.folder / "elsewhere").rmdir()
    assert left.json("runs", "prune")["labels"] == []
