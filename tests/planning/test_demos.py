"""The programs of `examples/planning` run as they are, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "planning"


def printed(name: str, home: Path) -> list[str]:
    """The lines that a demo prints; it must not fail, warn, or leave anything behind."""
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / name],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(home.iterdir()) == []
    return ended.stdout.splitlines()


def part(lines: list[str], heading: str) -> list[str]:
    """The lines below a heading, up to the next."""
    first = lines.index(f"== {heading} ==") + 1
    rest = lines[first:]
    return rest[: next((n for n, line in enumerate(rest) if line.startswith("== ")), len(rest))]


def test_basics_draws_and_keeps_plans(tmp_path: Path) -> None:
    lines = printed("plan_basics_demo.py", tmp_path)
    drawn = [re.sub(" +", " ", line).strip() for line in part(lines, "Half way") if line]
    assert drawn == [
        "● 1. Read the module [read_file] ∥",
        "● 2. Find what imports it [search_code] ∥",
        "◉ 3. Write it anew [write_file] ← after: 1, 2",
        "○ 4. Run the tests [run_tests] ← after: 3",
    ]
    assert part(lines, "Batches")[0] == "1: Read the module, Find what imports it"
    assert part(lines, "Saved plans") == [
        "saved: refactor-auth-001",
        "file: refactor-auth-001.json",
        "listed: refactor-auth-001 | Refactor the auth module | 4 steps",
        "read by the beginning of its id: Refactor the auth module",
        'variables: {"module_path": "src/auth/handler.py"}',
        "drawn as before: True",
        "deleted: True",
        "deleted once more: False",
        "left: []",
    ]


def test_execution_runs_fails_resumes_and_gets_other_steps(tmp_path: Path) -> None:
    lines = printed("plan_execution_demo.py", tmp_path)
    assert part(lines, "Dry run")[-5:-1] == [
        '  fetch would get {"url": "https://api.example.com/v2/users"}',
        '  count would get {"rows": "<fetch result>"}',
        '  save would get {"text": "<count result> users on 2026-02-28"}',
        "calls made: 0",
    ]
    run = part(lines, "Run")
    assert run[:6] == [
        "  [1] Fetch the users (fetch)",
        "    -> OK",
        "  [2] Count them (count)",
        "    -> OK",
        "  [3] Save the report (save)",
        "    -> OK",
    ]
    assert "Variables: ['api', 'date', 'users', 'number', 'saved']" in run
    assert "The users are still a list: True" in run
    assert "Saved: save: 2 users on 2026-03-01" in part(lines, "Run with a variable")
    assert part(lines, "A failure")[-3:-1] == [
        "Success: False, because step 3 failed: the disk is full",
        "State: failed after the steps 1, 2",
    ]
    assert "Success: True; called now: save" in part(lines, "Resumed")
    assert part(lines, "Other steps after a failure")[-3:] == [
        "Success: True, replanned: True",
        "Steps: Fetch the users, Count them, Print the report",
        "Printed: print_out: 2 users",
    ]


def test_parallel_steps_overlap_up_to_the_limit(tmp_path: Path) -> None:
    lines = printed("plan_parallel_demo.py", tmp_path)
    assert part(lines, "Its batches")[:3] == [
        "Batch 1 (serial): Fetch data",
        "Batch 2 (parallel): Validate schema, Transform format",
        "Batch 3 (serial): Aggregate results",
    ]
    pattern = r"(\w+), max_concurrency=(\d): success=True, \d calls, at most (\d) at once, ([\d.]+) s"
    timed = [found.groups() for line in lines if (found := re.match(pattern, line))]
    assert [(plan, int(limit), int(most)) for plan, limit, most, _ in timed] == [
        ("Diamond", 1, 1),
        ("Diamond", 4, 2),
        ("Wide", 2, 2),
        ("Wide", 4, 4),
        ("Wide", 8, 8),
    ]
    seconds = [float(took) for *_, took in timed]
    assert seconds[0] >= 0.79
    assert seconds[1] >= 0.59
    assert seconds[4] < seconds[2]


def test_guards_refuse_bind_and_report(tmp_path: Path) -> None:
    lines = printed("plan_guard_demo.py", tmp_path)
    budget = part(lines, "Budget of 4 calls")
    assert budget[:2] == [
        "  the conversation has called a tool itself: 3 calls are left",
        "  plan of 5 calls: success=False, calls made: 3",
    ]
    assert "a higher max_calls allows more" in budget[2]
    assert "a higher max_calls allows more" in budget[3]
    assert budget[4] == "  without guards: success=True, calls made: 8"
    caps = part(lines, "At most 2 calls of square")
    assert caps[:2] == ["  square {'number': 2}: 4", "  square {'number': 3}: 9"]
    assert caps[2].startswith("  square {'number': 4}: FAIL, guard: @SQUARE is refused")
    assert caps[3] == "  echo {'text': 'still allowed'}: {'text': 'still allowed'}"
    repeated = ["FAIL" in line for line in part(lines, "At most 3 equal calls in a row") if line]
    assert repeated == [False, False, False, True, False, False]
    recorded = part(lines, "Recorded results")
    assert "  $v2 = 81 (of square)" in recorded
    assert "  $v3 = {'text': '3 squared is 9, squared again 81'} (of echo)" in recorded
    assert part(lines, "Errors") == [
        "  broken {}: FAIL, ConnectionError: the server hung up",
        "  refusing {'page': 1}: FAIL, no such page",
    ]
