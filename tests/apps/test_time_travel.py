"""`rerun` and `fork`: branching off from a run, for people and programs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from callsheet.runtime.edits import Edits
from callsheet.runtime.forking import fork
from callsheet.store import Journal

PLAN = (
    "S1: @ADD (a=$n) > $a",
    "S2: ?FOREACH ($i IN [$a, 7]) THEN @ADD (a=$i, b=10) > $sums",
    'S3: ?IF ($a > 1) THEN @NOTE (line="$sums.1 kept") > $noted',
    'S4: @RESPOND ("$sums.0 $noted")',
)


def done_run(machine, *lines, run_id="r1", given=("n=1",)):
    variables = [part for text in given for part in ("--var", text)]
    result = machine(
        "run", machine.plan(*(lines or PLAN)), "--tools", machine.tools, "--run-id", run_id, *variables
    )
    assert result.exit_code in (0, 1), result.stderr


def notes(machine):
    path = machine.folder / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


def event_of(machine, run, key, kind="ok"):
    events = machine.json("show", run, "--events")
    return str(next(e["seq"] for e in events if e["key"] == key and e["type"] == kind))


def test_side_effects_are_listed_and_need_confirmation(machine):
    done_run(machine)
    result = machine("rerun", "r1", "--from", "S2", "--run-id", "r2")
    assert result.exit_code == 4
    assert "S3  @NOTE (unsafe)" in result.stderr
    assert '      then, instead of event 8 of r1: line="17 kept" → <ADD result.1> " kept"' in result.stderr
    assert "--yes" in result.stderr
    said = machine("rerun", "r1", "--from", "S2", "--json")
    assert said.exit_code == 4
    effects = json.loads(said.stdout)["effects"]
    assert [(e["step"], e["tool"], e["effect"]) for e in effects] == [("S3", "NOTE", "unsafe")]
    (call,) = effects[0]["calls"]
    assert (call["args"], call["unknown"]) == ({"line": '<ADD result.1> " kept"'}, ["line"])
    assert call["before"] == {"event": 8, "tool": "NOTE", "args": {"line": "17 kept"}}
    assert notes(machine) == ["17 kept"]
    assert [run["run_id"] for run in machine.json("runs")] == ["r1"]


def test_rerun_reuses_earlier_steps_and_repeats_rest(machine):
    done_run(machine)
    result = machine("rerun", "r1", "--from", "S3", "--yes", "--run-id", "r2")
    assert (result.exit_code, result.stdout.strip()) == (0, "12 17 kept")
    assert notes(machine) == ["17 kept", "17 kept"]
    assert "S1    started" not in result.stderr
    told = [line.split()[:2] for line in result.stderr.splitlines() if line.startswith("S3")]
    assert told == [["S3", "started"], ["S3", "ok"]]
    assert machine("runs", "diff", "r1", "r2", "--exit-code").exit_code == 0
    assert "r1 after event" in machine("show", "r2").stdout
    assert "child    r2" in machine("show", "r1").stdout
    row = next(run for run in machine.json("runs") if run["run_id"] == "r2")
    assert (row["parent"], row["forked_at"]) == ("r1", machine.json("show", "r2")["from"]["event"])


def test_calls_that_are_kept_are_told_from_those_that_are_made_and_take_no_time_of_the_parent(machine):
    loop = "# ltp: 2\nS1: ?FOREACH ($n IN [1]) {\n  S2: @ADD (a=$n)\n}\n"
    machine("run", machine.write("p.ltp", loop), "--tools", machine.tools, "--run-id", "r1")
    edited = machine.write("p.ltp", f"{loop}S3: @ADD (a=2)\n")
    said = machine("rerun", "r1", "--plan", edited, "--yes", "--run-id", "r2").stderr.splitlines()
    told = {line.split()[0]: "(kept: event 3 of run r1)" in line for line in said if " ok " in line}
    assert told == {"S1[0]/S2": True, "S1": False, "S3": False}
    shown = machine.json("show", "r2")
    assert shown["steps"][0]["step"] == "S1"
    assert shown["steps"][0]["started"] > shown["created"]


def test_branch_of_an_edited_plan_knows_the_file_that_it_is_from(machine):
    plan = machine.write("p.ltp", "# ltp: 2\nS1: @ADD (a=1) > $a\n")
    machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    machine.write("p.ltp", '# ltp: 2\nS1: @ADD (a=1) > $a\nFAIL ("full")\n')
    failed = machine("rerun", "r1", "--plan", plan, "--yes", "--run-id", "r2").stderr
    assert "p.ltp:3:1: FAIL: full" in failed
    assert "of run r2" not in failed
    assert "rerun r2 --from STEP" in machine("resume", "r2").stderr
    machine.write("p.ltp", "# ltp: 2\nS1: @ADD (a=1) > $a\n")
    assert f"rerun r2 --plan {machine.folder / plan} " in machine("resume", "r2").stderr


def test_run_is_not_ended_for_one_that_cannot_begin(machine):
    asks = '# ltp: 2\nS1: @ASK_HUMAN ("which?") > $x\n@RESPOND ($x)\n'
    machine("run", machine.write("p.ltp", asks), "--run-id", "r1")
    edited = machine.write("p.ltp", asks.replace("which", "what"))
    said = machine("resume", "r1", "--plan", edited, "--yes", "--run-id", "r1")
    assert "JRN003: the run r1 already exists" in said.stderr
    assert [run["status"] for run in machine.json("runs")] == ["waiting"]


def test_set_variable_replaces_result(machine):
    done_run(machine)
    at = event_of(machine, "r1", "S1.0.1")
    result = machine("fork", "r1", "--at", at, "--set", "a=0", "--by", "ann", "--run-id", "r2")
    assert "no side effects" in result.stderr  # the condition of S3 does not hold
    assert (result.exit_code, result.stdout.strip()) == (0, "10")
    assert notes(machine) == ["17 kept"]
    story = machine.json("show", "r2")
    assert (story["from"]["by"], story["from"]["edits"]) == ("ann", [{"set": "a"}])
    edited = [e for e in machine.json("show", "r2", "--events") if e["type"] == "edit"]
    assert [e["body"] for e in edited] == [{"values": {"a": 0}, "by": "ann", "holds": True}]
    assert "set by hand in the fork" in machine("why", "r2", "sums.0").stdout
    assert "$a set" in machine("runs", "diff", "r1", "r2").stdout
    assert machine("lctl", "emit", "r2").exit_code == 0
    assert machine("runs", "verify").exit_code == 0


def test_inputs_are_edited_at_first_event(machine):
    done_run(machine)
    result = machine("fork", "r1", "--at", "1", "--set", "n=40", "--run-id", "r2", "--yes")
    assert result.stdout.strip() == "51 17 kept"
    assert machine.json("show", "r2")["variables"]["n"] == 40


def test_edit_within_loop_applies_to_later_items(machine):
    lines = (
        'S1: ?FOREACH ($i IN [1, 2]) THEN @NOTE (line="$i $n") > $a',
        'S2: @RESPOND ("$a.0, $a.1, $n")',
    )
    done_run(machine, *lines)
    at = event_of(machine, "r1", "S1.0.1")
    result = machine("fork", "r1", "--at", at, "--set", "n=x", "--run-id", "r2", "--yes")
    assert result.stdout.strip() == "1 1, 2 x, x"


def test_argument_and_step_are_edited_before_they_start(machine):
    done_run(machine)
    at = event_of(machine, "r1", "S1.0.1")
    result = machine("fork", "r1", "--at", at, "--args", "S2.b=20", "--run-id", "r2", "--yes")
    assert result.stdout.strip() == "22 27 kept"
    line = 'S3=?IF ($a > 100) THEN @NOTE (line="never") > $noted'
    result = machine("fork", "r1", "--at", at, "--replace", line, "--run-id", "r3", "--yes")
    assert result.stdout.strip() == "12"
    assert machine.json("show", "r3")["from"]["edits"] == [{"replace": "S3", "line": line.partition("=")[2]}]
    result = machine("fork", "r1", "--at", at, "--replace", "S3=@NOWHERE (x=1)", "--yes")
    assert (result.exit_code, "CHK040" in result.stderr) == (2, True)


def test_text_argument_is_data(machine):
    done_run(machine, 'S1: @NOTE (line="one") > $a', 'S2: @NOTE (line="two") > $b', "S3: @RESPOND ($b)")
    at = event_of(machine, "r1", "S1.0.1")
    fork = ("fork", "r1", "--at", at, "--args", "S2.line=$a stays", "--run-id", "r2")
    assert 'line="two" → "$a stays"' in machine(*fork).stderr
    result = machine(*fork, "--yes")
    assert result.stdout.strip() == "$a stays"


def test_failure_names_the_text_of_the_fork_and_not_the_file(machine):
    """A failed item before it is no failure of the run: lists name the step that it failed at."""
    loop = "S2: ?FOREACH ($x IN [1]) THEN @FAIL (text=$x) > $b"
    done_run(machine, "S1: @ADD (a=1, b=1) > $a", loop, 'S3: @NOTE (line="two") ON_FAIL TERMINATE ("no")')
    at = event_of(machine, "r1", "S1.0.1")
    failing = 'S3=@FAIL (text="no luck") ON_FAIL TERMINATE ("gave up")'
    result = machine("fork", "r1", "--at", at, "--replace", failing, "--run-id", "r2", "--yes")
    assert "the plan failed at S3, plan.ltp of run r2:" in result.stderr
    assert [(run["run_id"], run["failed_step"]) for run in machine.json("runs")] == [
        ("r2", "S3"),
        ("r1", "S2"),
    ]


def test_impossible_edits_are_refused_with_hint(machine):
    done_run(machine)
    begun = event_of(machine, "r1", "S2.0.1", "intent")
    last = machine.json("show", "r1")["events"]
    for asked, code, hint in (
        (("fork", "r1", "--at", begun, "--args", "S2.b=20"), "JRN082", f"--at {int(begun) - 1}"),
        (("fork", "r1", "--at", last, "--set", "a=2"), "JRN082", "an earlier event"),
        (("fork", "r1", "--at", 3, "--set", "sum=2"), "JRN084", "$sums"),
        (("fork", "r1", "--at", 3, "--args", "S9.b=20"), "JRN084", "S1"),
        (("fork", "r1", "--at", 99), "JRN041", f"1 to {last}"),
        (("rerun", "r1", "--from", "S9"), "JRN081", "S1"),
        (("rerun", "r1", "--from", ""), "JRN081", "S1"),
        (("rerun", "r1", "--from", "S3@2"), "JRN081", "1 time"),
    ):
        result = machine(*map(str, asked))
        assert result.exit_code == 2, result.stderr
        assert code in result.stderr
        assert hint in result.stderr


def test_call_in_flight_keeps_outcome_of_parent(machine):
    done_run(machine)
    left = event_of(machine, "r1", "S3.0.1", "intent")
    result = machine("fork", "r1", "--at", left, "--run-id", "r2")
    assert (result.exit_code, result.stdout.strip()) == (0, "12 17 kept")
    assert notes(machine) == ["17 kept"]


def test_call_in_doubt_at_point_is_in_doubt_in_fork(machine):
    plan = machine.plan('S1: @DIE (marker="m") > $a', "S2: @RESPOND ($a)")
    machine.shell("run", plan, "--tools", machine.tools, "--run-id", "r1")
    result = machine("fork", "r1", "--at", "2", "--run-id", "r2")
    assert result.exit_code == 4
    assert "in doubt, it may have taken place" in result.stderr
    result = machine("fork", "r1", "--at", "2", "--run-id", "r2", "--yes")
    assert result.exit_code == 4
    assert "callsheet decide r2" in result.stderr
    assert machine("resume", "r2", "--in-doubt", "value=7").stdout.strip() == "7"


def test_fork_is_complete_without_parent(machine):
    lines = ("S1: @BULK (size=200000) > $a", 'S2: @NOTE (line="x") > $b', "S3: @RESPOND ($b)")
    done_run(machine, *lines)
    at = event_of(machine, "r1", "S1.0.1")
    assert machine("fork", "r1", "--at", at, "--run-id", "r2", "--yes").exit_code == 0
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        connection.execute("UPDATE runs SET updated = 0 WHERE run_id = 'r1'")
        connection.execute("UPDATE events SET ts = 0 WHERE id >> 32 = 1")
    pruned = machine.json("runs", "prune")
    assert pruned["runs"] == ["r1"]
    assert machine("runs", "verify").exit_code == 0
    assert machine.json("show", "r2")["variables"]["a"] == "x" * 200000
    assert machine("runs", "export", "r2", "-o", "r2.jsonl").exit_code == 0
    assert machine("runs", "import", "r2.jsonl", "--journal", "other.db").exit_code == 0
    assert machine("rerun", "r2", "--from", "S3", "--journal", "other.db").stdout.strip() == "x"


def test_sealed_values_stay_sealed_in_fork(machine, monkeypatch):
    lines = ("S1: @ADD (a=1) > $a", 'S2: @NOTE (line="$a ${word}") > $b', "S3: @RESPOND ($b)")
    monkeypatch.setenv("WORD", "opensesame")
    result = machine(
        "run", machine.plan(*lines), "--tools", machine.tools, "--run-id", "r1", "--secret", "word=env:WORD"
    )
    assert result.exit_code == 0, result.stderr
    at = event_of(machine, "r1", "S1.0.1")
    result = machine("fork", "r1", "--at", at, "--set", "a=5", "--run-id", "r2")
    assert result.exit_code == 4
    assert "opensesame" not in result.stdout + result.stderr
    assert machine("fork", "r1", "--at", at, "--set", "a=5", "--run-id", "r2", "--yes").exit_code == 0
    assert (
        machine("fork", "r1", "--at", "1", "--set", "word=abracadabra", "--run-id", "r3", "--yes").exit_code
        == 0
    )
    assert machine("rerun", "r3", "--from", "S2", "--run-id", "r4", "--yes").exit_code == 0
    assert notes(machine) == ["2 opensesame", "5 opensesame", "2 abracadabra", "2 abracadabra"]
    written = b"".join(path.read_bytes() for path in machine.journal.parent.iterdir() if path.is_file())
    assert b"opensesame" not in written
    assert b"abracadabra" not in written
    assert machine("runs", "verify").exit_code == 0


POLICY = """
schema = 1
[defaults]
inputs = "T/pub"
[tools."@LOOK"]
returns = "U/priv"
egress = false
destructive = false
[tools."@ADD"]
egress = false
destructive = false
returns = "T/pub"
[tools."@NOTE"]
control = ["path"]
egress = false
destructive = false
"""


def test_fork_keeps_policy_of_parent(machine):
    """An edited value is trusted like an input; an edited step is proved like a plan."""
    policy = machine.write("policy.toml", POLICY)
    lines = (
        'S1: @LOOK (path="seen") > $where',
        "S2: @ADD (a=1) > $a",
        'S3: @NOTE (line="$where", path="notes.txt") > $b',
        "S4: @RESPOND ($b)",
    )
    result = machine(
        "run", machine.plan(*lines), "--tools", machine.tools, "--run-id", "r1", "--policy", policy
    )
    assert result.exit_code == 0, result.stderr
    at = event_of(machine, "r1", "S2.0.1")
    untrusted = 'S3=@NOTE (line="x", path="$where") > $b'
    result = machine("fork", "r1", "--at", at, "--replace", untrusted, "--yes")
    assert result.exit_code == 3, result.stderr
    assert machine("rerun", "r1", "--from", "S3", "--run-id", "r2", "--yes").exit_code == 0
    story = machine.json("show", "r2", "--events")
    assert story[0]["body"]["policy_hash"] == machine.json("show", "r1", "--events")[0]["body"]["policy_hash"]
    with Journal.open(machine.journal) as journal:
        at = int(event_of(machine, "r1", "S1.0.1"))
        made = fork(journal, "r1", at, Edits({"where": "elsewhere", "a": 3}))
        monitor = made.folded.machine.monitor
        assert monitor is not None
        labels = {name: str(label) for name, (label, _) in monitor.variables().items()}
    assert labels["where"] == "T/priv"  # vouched for, and read by nobody who may not read what it replaces
    assert labels["a"] == "T/pub"


FILES = """
schema = 1
[sources]
"file:docs/**" = { conf = "pub", integrity = "T" }
"file:box/**" = { conf = "priv" }
[tools."@CHAT"]
returns = "T/pub"
destructive = false
"""


def test_edited_plan_is_proved_with_stored_labels(machine):
    policy = machine.write("policy.toml", FILES)
    for name in ("docs", "box"):
        (machine.folder / name).mkdir()
        machine.write(f"{name}/a.txt", f"from {name}")
    under = ("--tools", machine.tools, "--policy", policy)
    copying = machine.plan('S1: @READ_FILE ("box/a.txt") > $x', 'S2: @WRITE_FILE ("docs/copy.txt", $x) > $y')
    copied = machine("run", copying, *under)
    assert copied.exit_code == 0, copied.stderr
    reading = machine.plan(
        'S1: @READ_FILE ("docs/a.txt") > $a', 'S2: @READ_FILE ("docs/a.txt") > $b', "S3: @CHAT (text=$b) > $c"
    )
    first = machine("run", reading, *under, "--run-id", "r1")
    assert first.exit_code == 0, first.stderr
    given = ("--at", event_of(machine, "r1", "S1.0.1"), "--run-id", "r2", "--yes", "--replace")
    refused = machine("fork", "r1", *given, 'S2=@READ_FILE ("docs/copy.txt") > $b')
    assert (refused.exit_code, "POL103" in refused.stderr) == (3, True)
    assert "r2" not in [run["run_id"] for run in machine.json("runs")]
    assert machine("fork", "r1", *given, 'S2=@READ_FILE (path="docs/a.txt") > $b').exit_code == 0


def test_comparison_shows_divergence_and_slowdown_on_request(machine):
    lines = ("S1: @ADD (a=$n) > $a", "S2: ?FOREACH ($i IN [1, $n]) THEN @ADD (a=$i) > $b")
    for run, given in (("r1", "n=1"), ("r2", "n=2")):
        done_run(machine, *lines, run_id=run, given=(given,))
    assert "$b.1: A 2, B 3" in machine("runs", "diff", "r1", "r2").stdout
    said = machine.json("runs", "diff", "r1", "r2", "--times", "--noise", "0.1")
    assert {one["step"] for one in said["times"]} <= {"S1", "S2"}
    assert said["differing"][-1]["places"] == [{"place": "$b.1", "a": 2, "b": 3, "missing": None}]
    assert (
        "no step differs by more than 10%"
        in machine("runs", "diff", "r1", "r1", "--times", "--noise", "10%").stdout
    )
    assert machine("runs", "diff", "r1", "r1", "--times", "--noise", "x").exit_code == 2
