"""Inspecting runs: `why`, `at`, `blame`, `runs diff`, for people and programs."""

from __future__ import annotations


def done_run(machine, *lines, run_id="r1"):
    plan = machine.plan(
        *(
            lines
            or (
                "S1: @ADD (a=$n) > $a",
                "S2: ?FOREACH ($i IN [$a, 7]) THEN @ADD (a=$i, b=10) > $sums",
                'S3: ?IF ($a > 1) THEN @NOTE (line="$sums.1 kept") > $noted',
                'S4: @RESPOND ("$sums.0 $noted")',
            )
        )
    )
    result = machine(
        "run", plan, "--tools", machine.tools, "--run-id", run_id, "--var", "n=1", "--retry-delay", "0"
    )
    assert result.exit_code in (0, 1), result.stderr


def test_why_follows_value_to_input_and_plan(machine):
    done_run(machine)
    text = machine("why", "last", "sums.0").stdout
    assert text.splitlines()[0].startswith("$sums.0 = 12  ·  S2 @ADD (a=$i, b=10), event ")
    assert "[0] a: $a = 2  ·  S1 @ADD (a=$n), event " in text
    assert "a: $n = 1  ·  given to the run" in text
    assert "b: 10  ·  in the plan" in text
    assert "$n" not in machine("why", "last", "$sums.1").stdout


def test_why_shows_origin_of_answer(machine):
    done_run(machine)
    said = machine.json("why", "r1", "answer")
    assert said["nodes"][0]["preview"] == "12 17 kept"
    assert said["nodes"][0]["step"] == "S4"
    noted = next(node for node in said["nodes"] if node["variable"] == "noted")
    assert {(way["role"], way["variable"]) for way in noted["made_of"]} == {
        ("condition", "a"),
        ("argument", "sums"),
    }
    assert [call["key"] for call in noted["calls"]] == ["S3.0.1"]
    assert noted["calls"][0]["left"] < noted["calls"][0]["answered"] == noted["event"]


def test_why_json_is_limited_to_nearest_thousand_unless_all(machine):
    done_run(machine, "S1: @ADD (a=$n) > $n", "S2: ?IF ($n < 1100) THEN GOTO S1")
    nearest, whole = machine.json("why", "r1", "n"), machine.json("why", "r1", "n", "--all")
    assert (nearest["more"], whole["more"]) == (True, False)
    assert nearest["nodes"][:-1] == whole["nodes"][:999]
    assert len(whole["nodes"]) > len(nearest["nodes"]) == 1000


def test_why_forward_reports_truncation(machine):
    done_run(machine)
    near = machine("why", "r1", "n", "--forward", "--depth", "1").stdout
    assert "received it up to this depth; increase --depth for more" in near
    assert "increase --depth" not in machine("why", "r1", "n", "--forward").stdout


def test_why_forward_ends_at_effects(machine):
    done_run(machine)
    text = machine("why", "r1", "n", "--forward").stdout
    assert "received it" in text
    assert "S3.0.1 @NOTE (unsafe)" in text
    keys = [call["key"] for call in machine.json("why", "r1", "n", "--forward")["calls"]]
    assert keys == ["S1.0.1", "S2.0.1", "S3.0.1"]  # the guard of S3 reads $a, which was made of $n
    assert all(key != "S2.1.1" for key in keys)


def test_unknown_names_are_refused_with_suggestions(machine):
    done_run(machine)
    for asked, hint in (("sum", "did you mean $sums?"), ("sums.9", "it has 0, 1")):
        refused = machine("why", "r1", asked)
        assert refused.exit_code == 2
        assert "JRN040" in refused.stderr
        assert hint in refused.stderr
    assert machine("why", "r1", "sums[1]").stdout == machine("why", "r1", "sums.1").stdout
    assert "JRN002" in machine("why", "r7", "a").stderr
    assert "JRN041" in machine("at", "r1", "99").stderr


def test_at_shows_run_after_event(machine):
    done_run(machine)
    events = machine.json("show", "r1", "--events")
    first = machine.json("at", "r1", "1")
    assert first["variables"] == {"n": 1}
    assert [call["key"] for call in first["open"]] == ["S1.0.1"]
    assert first["turn"] == "S1"
    answered = next(event["seq"] for event in events if event["type"] == "ok")
    assert machine.json("at", "r1", str(answered))["variables"] == {"n": 1, "a": 2}
    last = machine.json("at", "r1", str(len(events)))
    assert last["status"] == "done"
    assert last["response"] == "12 17 kept"
    text = machine("at", "r1", str(answered)).stdout
    assert "status   running, at S2" in text
    assert "$a = 2" in text


def test_blame_separates_failed_step_from_likely_cause(machine):
    done_run(
        machine,
        "S1: ?FOREACH ($i IN [1, 2, $n]) THEN @ADD (a=$i) > $ok",
        'S2: ?FOREACH ($i IN [1, "x"]) THEN @ADD (a=$i) > $sums',
        "S3: @ADD (a=$sums.0, b=$ok.0) > $fine",
        'S4: @NOTE (line=$sums) > $noted ON_FAIL TERMINATE ("not noted")',
    )
    said = machine.json("blame", "r1")
    assert said["failed"]["step"] == "S4"
    cause = said["likely_cause"]
    assert (cause["what"], cause["step"], cause["variable"], cause["path"], cause["call"]) == (
        "error", "S2", "sums", [1], "S2.1.1",
    )  # fmt: skip
    assert [(way["variable"], way["argument"]) for way in cause["way"]] == [("sums", "line")]
    text = machine("blame", "r1").stdout
    assert text.startswith("failed        S4 @NOTE")
    assert "likely cause  $sums.1 = " in text
    assert "its call S2.1.1 failed at event " in text


def test_blame_finds_missing_data(machine):
    done_run(
        machine,
        "S1: @ADD (a=1) > $a",
        "S2: @ADD (a=$a, b=$n.deep) > $b ON_FAIL TERMINATE",
    )
    cause = machine.json("blame", "r1")["likely_cause"]
    assert (cause["what"], cause["variable"], cause["path"]) == ("unset", "n", ["deep"])


def test_blame_shows_item_error_that_ended_loop(machine):
    plan = machine.plan('S1: ?FOREACH ($f IN ["a", "b"]) THEN @READ_FILE (path=$f) > $t ON_FAIL TERMINATE')
    assert machine("run", plan, "--run-id", "r1").exit_code == 1
    error = machine.json("show", "r1")["error"]
    assert "'a'" in error
    assert machine.json("blame", "r1")["error"] == error


def test_blame_names_failed_item_with_its_arguments(machine):
    plan = machine.plan(
        'S1: ?FOREACH ($n IN [1, 2, "x"]) THEN @ADD (a=$n) > $sums ON_FAIL TERMINATE ("no sum: $sums")'
    )
    assert machine("run", plan, "--tools", machine.tools, "--run-id", "r1").exit_code == 1
    failed = machine.json("blame", "r1")["failed"]
    assert (failed["call"], failed["preview"]) == ("S1.2.1", '{"a":"x"}')
    assert 'call S1.2.1: {"a":"x"}' in machine("blame", "r1").stdout


def test_blame_of_run_without_failure_is_empty(machine):
    done_run(machine)
    refused = machine("blame", "r1")
    assert refused.exit_code == 2
    assert "JRN042" in refused.stderr


def test_diff_shows_where_runs_diverge_and_effects(machine):
    lines = ["S1: @ADD (a=1) > $a", "S2: @ADD (a=$n) > $b", "S3: @ADD (a=$b) > $c", "S4: @RESPOND ($a)"]
    done_run(machine, *lines, run_id="r1")
    done_run(machine, *lines, run_id="r2")
    assert machine("runs", "diff", "r1", "r2", "--exit-code").exit_code == 0
    done_run(machine, *(line.replace("$n)", "$n, b=5)") for line in lines), run_id="r3")
    said = machine.json("runs", "diff", "r1", "r3")
    assert not said["same_plan"]
    assert said["first"]["a"]["step"] == "S2"
    assert [(p["a"]["step"], p["what"], p["follows"]) for p in said["differing"]] == [
        ("S2", ["arguments", "result"], False),
        ("S3", ["arguments", "result"], True),
    ]
    assert machine("diff", "r1", "r3", "--exit-code").exit_code == 1


def test_diff_pairs_steps_with_other_ids_by_tool_and_arguments(machine):
    done_run(machine, "S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)", run_id="r1")
    done_run(machine, "S1: @CHAT (text=1) > $z", "S2: @ADD (a=1) > $a", "S3: @RESPOND ($a)", run_id="r2")
    differing = machine.json("runs", "diff", "r1", "r2")["differing"]
    assert [p["b"]["tool"] for p in differing if p["a"] is None] == ["CHAT"]
    assert all((p["a"] or {}).get("tool") != "ADD" for p in differing)
