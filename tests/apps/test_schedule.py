"""`explain-schedule`, `run --schedule`, `show --timeline`: when steps start."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = (
    "S1: @ADD (a=1) > $a",
    "S2: @ADD (a=$a) > $b",
    'S3: @NOTE (line="x")',
    "S4: @ADD (a=2) > $c",
    "S5: @MYSTERY (1)",
    "S6: @RESPOND ($b, $c)",
)


def test_explain_schedule_prints_what_each_step_waits_for(machine):
    result = machine("explain-schedule", machine.plan(*STEPS), "--tools", machine.tools)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "S1 starts at once",
        "S2 waits for S1 ($a)",
        "S3 waits for all before it: it may write",
        "S4 waits for S3 (may write)",
        "S5 waits for all before it: it may write",
        "S6 waits for all before it: it ends the run",
    ]
    unknown = "unknown tools, which are assumed to write: @MYSTERY; give their files with --tools"
    assert unknown in result.stderr


def test_explain_schedule_prints_json(machine):
    said = machine.json(
        "explain-schedule", machine.plan(*STEPS), "--tools", machine.tools, "--approve", "ADD"
    )
    assert said["unknown_tools"] == ["MYSTERY"]
    assert [step["starts"] for step in said["steps"]] == ["early", *["in turn"] * 5]
    assert said["steps"][1]["why"] == "a person is asked first"


def test_explain_schedule_says_what_runs_side_by_side_in_blocks_and_why(machine):
    steps = """INPUT $names: list[int]
PLAN one ($n: int) -> int {
  A1: @ADD (a=$n) > $x
  RETURN ($x)
}
S1: ?FOREACH ($n IN $names) TOGETHER STOP MAX 3 {
  S2: CALL one (n=$n)
}
@PARALLEL STOP {
  S3: @ADD (a=1) > $a
  S4: @ADD (a=2) > $b
}
LET $left = 3
S5: ?FOREACH ($n IN $names) {
  SET $left = $left - 1
}
S6: ?FOREACH ($n IN $names) {
  S7: @ADD (a=$n) > $c
}
S8: ?FOREACH ($n IN $names) {
  ?IF ($n > 2) {
    S9: @NOTE (line="x")
  }
}"""
    plan = machine.plan(steps)
    Path(plan).write_text(f"# ltp: 2\n{steps}\n@RESPOND ($a)\n")
    said = machine("explain-schedule", plan, "--tools", machine.tools)
    assert said.stdout.splitlines() == [
        "A1 starts in its turn",
        "S1 runs its items side by side: it says TOGETHER STOP, at most 3 at a time",
        "  S2 starts in its turn",
        "parallel1 starts its members together: S3, S4; a failure stops the others",
        "  S3 starts with its group",
        "  S4 starts with its group",
        "S5 runs its items one after another: it sets $left, which the next item sees",
        "S6 runs its items side by side: all its calls only read",
        "  S7 starts in its turn",
        "S8 runs its items one after another: S9 @NOTE may write",
        "  S9 starts in its turn",
    ]
    rows = machine.json("explain-schedule", plan, "--tools", machine.tools)["steps"]
    assert (rows[1]["starts"], rows[9]["why"]) == ("side by side", "S9 @NOTE may write")


def test_page_quotes_schedule_of_example():
    from click.testing import CliRunner

    from callsheet.apps.cli.main import main

    tools = str(EXAMPLES / "briefing_tools.py")
    said = CliRunner().invoke(main, ["explain-schedule", str(EXAMPLES / "briefing.ltp"), "--tools", tools])
    page = (EXAMPLES.parent / "docs" / "blocks.md").read_text(encoding="utf-8")
    assert said.stdout in page
    text = (EXAMPLES / "briefing.ltp").read_text(encoding="utf-8")
    assert text in page


def test_schedule_is_auto_by_default(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $b", "S3: @RESPOND ($a, $b)")
    for name, options, early in (("r1", (), 1), ("r2", ("--schedule", "sequential"), 0)):
        assert machine("run", plan, "--tools", machine.tools, "--run-id", name, *options).stdout == "2 3\n"
        told = machine.json("show", name)
        assert told["limits"]["schedule"] == ("auto" if early else "sequential")
        assert told["usage"]["early"] == early
        assert [step["step"] for step in told["steps"]] == ["S1", "S2", "S3"]
        assert [step["calls"] for step in told["steps"]] == [1, 1, 0]


def test_configuration_sets_schedule(machine, monkeypatch):
    config = machine.folder / "config.toml"
    monkeypatch.setenv("CALLSHEET_CONFIG", str(config))
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $b")
    for number, (text, schedule) in enumerate(
        (("", "auto"), ("max_steps = 5", "auto"), ('schedule = "sequential"', "sequential"))
    ):
        config.write_text(f"[limits]\n{text}\n")
        machine("run", plan, "--tools", machine.tools, "--run-id", f"r{number}")
        assert machine.json("show", f"r{number}")["limits"]["schedule"] == schedule
    config.write_text('[limits]\nschedule = "eager"\n')
    assert "limits.schedule must be one of sequential, auto" in machine("run", plan).stderr


def test_concurrency_is_set_for_all_or_one_tool(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $b")
    options = ("--max-concurrency", "7", "--max-concurrency", "add=2", "--run-id", "r1")
    assert machine("run", plan, "--tools", machine.tools, *options).exit_code == 0
    limits = machine.json("show", "r1")["limits"]
    assert (limits["max_concurrency"], limits["max_concurrency_by_tool"]) == (7, {"ADD": 2})
    wrong = machine("run", plan, "--max-concurrency", "0")
    assert (wrong.exit_code, "0 is not in the range x>=1" in wrong.stderr) == (2, True)


def test_killed_run_keeps_early_results(machine):
    """S2 has answered early when S3 kills the process; it is not called again."""
    plan = machine.plan(
        'S1: @LOOK (path="one", wait=0.3) > $a',
        'S2: @LOOK (path="two") > $b',
        'S3: @DIE (marker="dead") > $c',
        "S4: @RESPOND ($a, $b, $c)",
    )
    killed = machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r1")
    assert killed.returncode != 0
    (machine.folder / "two").unlink()
    done = machine("resume", "r1", "--in-doubt", "retry")
    assert done.stdout == "seen seen alive\n"
    assert not (machine.folder / "two").exists()
    rows = machine.json("show", "r1", "--timeline")["timeline"]
    assert [row["step"] for row in rows] == ["S1", "S2", "S3"]
    one, two, three = rows
    assert two["start"] < one["end"] <= three["start"]
    assert two["start"] < two["turn"]
    drawn = machine("show", "r1", "--timeline").stdout
    assert "▒" in drawn.splitlines()[1]
