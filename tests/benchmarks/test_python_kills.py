"""A small version of the benchmark that kills a Python plan: no finished call again, CPython's result."""

from pathlib import Path

from benchmarks.python_kills import expected, finished, killed


def test_killed_program_makes_no_finished_call_again(tmp_path: Path) -> None:
    made = killed(tmp_path, kills=2, calls=150)
    assert made.answer == expected(150)
    assert made.kills
    assert not made.made_again
    assert len(finished(tmp_path / "runs.db")) == 150
