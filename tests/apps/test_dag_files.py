"""JSON and YAML plans on the command line."""

from __future__ import annotations

import json
from pathlib import Path

STEPS = [
    {
        "index": "2",
        "title": "Write",
        "tool": "write_file",
        "args": {"path": "o", "content": "${t}"},
        "depends_on": ["1"],
    },
    {
        "index": "1",
        "title": "Read",
        "tool": "read_file",
        "args": {"path": "i"},
        "depends_on": [],
        "result_variable": "t",
    },
]
PLAN = json.dumps({"id": "copy", "steps": STEPS})
YAML = "steps:\n- {index: 1, title: Read, tool: read_file, args: {path: i}, depends_on: []}\n"


def test_json_plan_is_checked_against_tools(machine):
    result = machine("check", machine.write("p.json", PLAN))
    assert "p.json: ok, 2 steps" in result.stdout
    assert machine("check", machine.write("p.yaml", YAML)).exit_code == 0


def test_errors_of_form_and_of_graph_are_reported_together(machine):
    steps = [{**STEPS[0], "depends_on": ["2"], "titel": 1}, {**STEPS[1], "args": None}]
    result = machine.json("check", machine.write("p.json", json.dumps({"id": "A", "steps": steps})))
    assert {d["code"] for d in result["diagnostics"]} >= {"DAG013", "DAG012", "DAG011", "CHK061"}
    assert all(d["line"] == 1 for d in result["diagnostics"] if d["code"].startswith("DAG"))


def test_dependency_on_unreadable_step_is_not_reported_unknown(machine):
    steps = [{**STEPS[0]}, {**STEPS[1], "args": None}]
    result = machine("check", machine.write("p.json", json.dumps({"steps": steps})))
    assert "DAG011" in result.stdout
    assert "CHK060" not in result.stdout


def test_json_plan_is_formatted_canonically(machine):
    path = machine.write("p.json", PLAN)
    assert machine("fmt", path).exit_code == 0
    written = (machine.folder / "p.json").read_text()
    assert json.loads(written) == {"id": "copy", "steps": STEPS}
    assert machine("fmt", "--check", path).exit_code == 0


def test_fmt_refuses_files_that_would_lose_content(machine):
    text = json.dumps({"notes": "mine", "steps": STEPS})
    result = machine("fmt", machine.write("p.json", text))
    assert result.exit_code == 2
    assert "DAG012" in result.stderr
    assert (machine.folder / "p.json").read_text() == text
    assert machine("fmt", machine.write("p.yaml", YAML)).exit_code == 2


def test_yaml_plan_is_printed_as_json(machine):
    result = machine("fmt", "--to", "dag", machine.write("p.yml", YAML))
    assert json.loads(result.stdout)["steps"][0]["index"] == "1"


def test_json_plan_converts_to_text_and_back(machine):
    text = machine("fmt", "--to", "ltp", machine.write("p.json", PLAN))
    assert "S1: @READ_FILE" in text.stdout
    assert "DAG071" in text.stderr
    back = machine("fmt", "--to", "dag", machine.write("p.ltp", text.stdout))
    assert [s["depends_on"] for s in json.loads(back.stdout)["steps"]] == [[], ["S1"]]


def test_steps_that_graph_cannot_express_are_refused_with_their_position(machine):
    result = machine("fmt", "--to", "dag", machine.plan("S1: @A () > $x", "S2: ?IF ($x == 1) THEN GOTO S1"))
    assert result.exit_code == 2
    assert "plan.ltp:4:1: error DAG070: a JSON plan cannot express GOTO (step S2)" in result.stderr


def test_positional_arguments_get_parameter_names_of_builtin_and_python_tools(machine):
    plan = machine.plan('S1: @READ_FILE ("a.txt") > $a', "S2: @SHOUT ($a)")
    refused = machine("fmt", "--to", "dag", plan)
    assert refused.exit_code == 2
    assert "arguments without a name (step S2)" in refused.stderr
    assert "or give the declaration of the tool" in refused.stderr
    assert "step S1" not in refused.stderr
    tools = machine.write(
        "shout.py",
        "import callsheet\n@callsheet.tool(effect='pure')\ndef shout(text: str) -> str:\n    return text\n",
    )
    made = machine("fmt", "--to", "dag", plan, "--tools", tools)
    assert [s["args"] for s in json.loads(made.stdout)["steps"]] == [{"path": "a.txt"}, {"text": "${a}"}]


def test_stdin_that_looks_like_json_is_read_as_json(machine):
    assert machine("fmt", "-", stdin=PLAN).exit_code == 0
    assert machine("check", "--syntax", "dag", "-", stdin=YAML).exit_code == 0


def test_graph_is_drawn_by_level(machine):
    path = machine.write("p.json", PLAN)
    lines = machine("graph", path).stdout.splitlines()
    assert [line[:4] for line in lines] == ["○ 1.", "", "○ 2."]
    assert machine("graph", "--format", "mermaid", path).stdout.startswith("graph TD")


def test_printed_schema_equals_published_one(machine):
    docs = Path(__file__).parents[2] / "docs"
    for name in ("dag", "plan"):
        published = (docs / f"{name}.schema.json").read_text("utf-8")
        assert json.loads(machine("schema", name).stdout) == json.loads(published)
