"""Unusual arguments give an error and exit status 1 or 2, and none is reported as a bug."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from callsheet.apps.cli.exit_status import Exit

LONG = "a" * 5_000
FILES = "resource.setrlimit(resource.RLIMIT_NOFILE"
PLAN = 'S1: @RESPOND ("hi")\n'


@pytest.mark.parametrize("group", [(), ("plan",), ("lctl",), ("trust",)])
def test_group_without_command_prints_its_help(machine, group):
    result = machine(*group)

    assert result.exit_code == Exit.WRONG
    assert result.stdout == ""
    assert result.stderr == machine(*group, "--help").stdout


@pytest.mark.parametrize("command", [("graph",), ("run",), ("dry-run",), ("plan", "diff", LONG)])
def test_impossible_file_name_is_no_plan(machine, command):
    result = machine(*command, LONG)

    assert result.exit_code == Exit.WRONG
    assert "error CFG012: the plan aaa" in result.stderr


def test_policy_init_refuses_impossible_file_name(machine):
    result = machine("policy", "init", "-o", LONG)

    assert result.exit_code == Exit.WRONG
    assert "error CFG014: aaa" in result.stderr
    assert "name a file that can be written" in result.stderr


@pytest.mark.parametrize(
    "option",
    [
        "--max-cost=nan",
        "--max-cost=inf",
        "--retry-delay=nan",
        f"--max-time={'9' * 400}",
        f"--max-calls={'9' * 5_000}",
    ],
)
def test_limit_is_finite_number(machine, option):
    machine.write("p.ltp", PLAN)
    result = machine("run", "p.ltp", option)

    assert result.exit_code == Exit.WRONG
    assert "error CFG010" in result.stderr


@pytest.mark.parametrize("command", [("dry-run", "p.ltp", "--price=nan"), ("cancel", "x", "--patience=nan")])
def test_non_finite_numbers_are_refused(machine, command):
    machine.write("p.ltp", PLAN)

    assert "is not a finite number" in machine(*command).stderr


@pytest.mark.parametrize("command", [("run", "p.ltp"), ("runs",), ("labels", "list"), ("runs", "verify")])
def test_root_folder_is_no_journal(machine, command):
    machine.write("p.ltp", PLAN)
    result = machine(*command, "--journal", "/")

    assert result.exit_code == Exit.FAILED
    assert "error JRN010: the journal / cannot be used: it is a folder" in result.stderr


def test_export_without_file_name_is_refused(machine):
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp")

    assert "error CFG014: . cannot be written" in machine("runs", "export", "last", "-o", "").stderr


@pytest.mark.parametrize("name", ["gone.jsonl", "./gone"])
def test_file_that_is_not_there_is_named_not_taken_for_a_run(machine, name):
    assert f"CFG012: {name} cannot be read" in machine("distil", name).stderr


@pytest.mark.parametrize("command", [("run", "p.ltp"), ("runs",), ("show", "last")])
def test_pipe_or_device_is_no_journal_and_is_unchanged(machine, command):
    machine.write("p.ltp", PLAN)
    pipe = machine.folder / "pipe"
    os.mkfifo(pipe)
    result = machine(*command, "--journal", "pipe")

    assert result.exit_code == Exit.FAILED
    assert "pipe cannot be used: it is a device or a pipe, not a file" in result.stderr
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", ["export", "salvage", "backup"])
def test_journal_is_not_replaced_by_its_own_export(machine, command):
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp")
    before = machine.journal.read_bytes()
    (machine.folder / "link").symlink_to(machine.journal)

    for out in (str(machine.journal), "link"):
        assert machine("runs", command, "-o", out).exit_code in (1, 2)
    assert machine.journal.read_bytes() == before
    assert machine("runs", "backup", "-o", "-").exit_code == Exit.WRONG


@pytest.mark.parametrize("command", [("runs", "export"), ("runs", "salvage"), ("report", "last")])
def test_output_can_be_pipe_or_device(machine, command):
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp")
    pipe = machine.folder / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(held, fcntl.F_SETPIPE_SZ, 1 << 20)
    try:
        assert machine(*command, "-o", "pipe").exit_code == Exit.OK
        assert (len(os.read(held, 1 << 20)) > 1000, pipe.is_fifo()) == (True, True)
    finally:
        os.close(held)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "Too many open files", "re2.py"), ImportError("libre2.so: Too many open files")],
)
def test_too_many_open_files_is_diagnostic(machine, monkeypatch, error):
    def refuse(*_given, **_named):
        raise error

    monkeypatch.setattr("callsheet.apps.cli.plan_texts.try_read_plan", refuse)
    result = machine("check", "p.ltp")

    assert result.exit_code == Exit.FAILED
    assert "error CFG022: too many open files: no more than " in result.stderr


def test_run_with_few_file_descriptors_succeeds_or_reports_them(machine):
    """A journal needs some; SQLite does not report why it cannot open one."""
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp")
    for most in range(8, 15):
        result = machine.shell("run", "p.ltp", prefix=f"import resource; {FILES}, ({most}, {most}))")
        assert result.returncode == 0 or "error CFG022: too many open files" in result.stderr, most


@pytest.mark.parametrize("command", [("check", "p.ltp"), ("run", "p.ltp"), ("doctor",), ("tools",)])
def test_deleted_working_directory_is_named(machine, monkeypatch, command):
    gone = machine.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = machine(*command)

    assert result.exit_code == Exit.WRONG
    assert "error CFG021: the working folder has been deleted" in result.stderr


@pytest.mark.parametrize("command", [("runs",), ("inbox",), ("labels", "list"), ("runs", "verify")])
def test_unreadable_default_journal_is_error(machine, monkeypatch, command):
    monkeypatch.setenv("CALLSHEET_JOURNAL", f"{LONG}/journal.db")
    result = machine(*command)

    assert result.exit_code in (Exit.FAILED, Exit.WRONG)
    assert "error JRN0" in result.stderr


def test_unreadable_folders_are_reported(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    monkeypatch.setenv("CALLSHEET_MODELS", LONG)

    assert "is not a folder" in machine("run", "p.ltp", "--workspace", LONG).stderr
    assert machine("models", "list").exit_code == Exit.OK
    assert "error MDL022" in machine("models", "path", "smollm2-135m").stderr


@pytest.mark.parametrize(
    "line",
    [("tail", "last", "--from"), ("runs", "--limit"), ("search", "last", "hi", "--limit")],
)
def test_out_of_range_number_is_accepted(machine, line):
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp")

    assert machine(*line, "9" * 30).exit_code == Exit.OK
