"""`fmt`: canonical, idempotent, in place, and lossless."""

from __future__ import annotations

import os
import stat

UNTIDY = "PLAN_START\nS1: @fetch_page(url='x')>$a  # why\nS2: RESPOND($a)\nPLAN_END\n"
TIDY = '# ltp: 1\nPLAN_START\nS1: @FETCH_PAGE (url="x") > $a  # why\nS2: @RESPOND ($a)\nPLAN_END\n'


def test_file_is_written_in_canonical_form(machine):
    machine.write("p.ltp", UNTIDY)
    result = machine("fmt", "p.ltp")
    assert result.exit_code == 0
    assert result.stderr == "p.ltp: formatted\n"
    assert (machine.folder / "p.ltp").read_text() == TIDY
    assert machine("fmt", "p.ltp").stderr == ""


def test_mode_and_symlink_are_preserved(machine):
    target = machine.folder / "real.ltp"
    machine.write("real.ltp", UNTIDY)
    target.chmod(0o640)
    (machine.folder / "p.ltp").symlink_to(target)
    machine("fmt", "p.ltp")
    assert (machine.folder / "p.ltp").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.read_text() == TIDY
    assert sorted(os.listdir(machine.folder)) == ["p.ltp", "real.ltp", "tools.py"]


def test_stdin_is_formatted_to_stdout(machine):
    result = machine("fmt", "-", stdin=UNTIDY)
    assert result.stdout == TIDY
    assert result.exit_code == 0


def test_check_writes_nothing_and_reports_changes(machine):
    machine.write("p.ltp", UNTIDY)
    result = machine("fmt", "--check", "p.ltp")
    assert result.exit_code == 1
    assert "would be formatted" in result.stderr
    assert (machine.folder / "p.ltp").read_text() == UNTIDY
    machine.write("q.ltp", TIDY)
    assert machine("fmt", "--check", "q.ltp").exit_code == 0


def test_diff_shows_lines(machine):
    machine.write("p.ltp", UNTIDY)
    result = machine("fmt", "--diff", "p.ltp")
    assert "-S2: RESPOND($a)" in result.stdout
    assert "+S2: @RESPOND ($a)" in result.stdout
    assert (machine.folder / "p.ltp").read_text() == UNTIDY


def test_diff_shows_line_ending_changes(machine):
    (machine.folder / "p.ltp").write_bytes(TIDY.replace("\n", "\r\n").encode())
    result = machine("fmt", "--diff", "p.ltp")
    assert "p.ltp: 5 lines end with CR LF, which would become LF; nothing else differs\n" in result.stderr
    (machine.folder / "p.ltp").write_bytes(TIDY.rstrip().encode())
    result = machine("fmt", "--diff", "p.ltp")
    assert "-PLAN_END\n\\ No newline at end of file\n+PLAN_END\n" in result.stdout
    assert "line" not in result.stderr


def test_text_with_errors_is_not_modified(machine):
    broken = "PLAN_START\nS1: @FETCH_PAGE (url=) > $a\nPLAN_END\n"
    machine.write("p.ltp", broken)
    machine.write("q.ltp", UNTIDY)
    result = machine("fmt", "p.ltp", "q.ltp")
    assert result.exit_code == 2
    assert "LTP022" in result.stderr
    assert (machine.folder / "p.ltp").read_text() == broken
    assert (machine.folder / "q.ltp").read_text() == TIDY


def test_prose_around_plan_is_kept(machine):
    text = "Here is the plan.\n\n" + UNTIDY
    machine.write("p.ltp", text)
    result = machine("fmt", "p.ltp")
    assert result.exit_code == 2
    assert "LTP103" in result.stderr
    assert (machine.folder / "p.ltp").read_text() == text


def test_json_plans_are_refused(machine):
    machine.write("p.json", "{}")
    assert machine("fmt", "p.json").exit_code == 2


def test_unwritable_file_stays_unchanged(machine, monkeypatch):
    machine.write("p.ltp", UNTIDY)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.fsync", refuse)
    result = machine("fmt", "p.ltp")
    assert result.exit_code == 2
    assert "CFG014" in result.stderr
    assert (machine.folder / "p.ltp").read_text() == UNTIDY


def test_json_lists_changed_files(machine):
    machine.write("p.ltp", UNTIDY)
    assert machine.json("fmt", "p.ltp") == {"ok": True, "changed": ["p.ltp"], "diagnostics": []}
