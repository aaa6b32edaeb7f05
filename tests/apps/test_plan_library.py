"""`callsheet plan`: plans made by a model, stored under ids, run, resumed, renamed, deleted."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

STEP = {"title": "Add", "tool": "add", "args": {"a": 1, "b": 2}, "depends_on": [], "result_variable": "sum"}
PLAN = {
    "title": "Add numbers",
    "steps": [
        {**STEP, "index": "1"},
        {
            "index": "2",
            "title": "Say",
            "tool": "respond",
            "args": {"values": ["${sum}"]},
            "depends_on": ["1"],
        },
    ],
}
LTP = '# ltp: 1\n# goal: Greet\nPLAN_START\n# as we say here\nS1: @RESPOND ("hi", $name)\nPLAN_END\n'
FAILING = {
    "id": "flaky",
    "title": "Add, whatever happens",
    "steps": [
        {**STEP, "index": "1"},
        {"index": "2", "title": "Fail", "tool": "fail", "args": {"text": "no"}, "depends_on": ["1"]},
    ],
}


@pytest.fixture
def home(machine):
    """A machine whose model is a function that returns the text of a file and records its requests."""
    machine.write(
        "model.py",
        "import json, pathlib\n"
        "def ask(messages):\n"
        "    pathlib.Path('asked.json').write_text(json.dumps(messages))\n"
        "    return pathlib.Path('answer.txt').read_text()\n",
    )
    machine.write("answer.txt", f"Here you are:\n```json\n{json.dumps(PLAN)}\n```\nDone.")
    return machine


def create(home, *more):
    return home.json(
        "plan", "create", "add one and two", "--model", "model.py:ask", "--tools", "tools.py", *more
    )


def test_goal_becomes_stored_plan_that_runs(home):
    made = create(home)
    assert (made["id"], made["title"], made["goal"]) == ("add-numbers", "Add numbers", "add one and two")
    asked = "\n".join(m["content"] for m in json.loads((home.folder / "asked.json").read_text()))
    assert "add(a: integer, b?: integer): The sum of two numbers." in asked
    assert "add one and two" in asked
    assert not home.journal.exists()
    done = home.json("plan", "run", "add", "--tools", "tools.py")
    assert (done["status"], done["response"]) == ("done", "3")


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("I cannot do that.", "PLN010", "I cannot do that"),
        ("", "MDL011", "is empty"),
        (json.dumps({"steps": [{**STEP, "index": "1", "tool": "ghost"}]}), "PLN010", "@GHOST"),
        (json.dumps({"steps": [{**STEP, "index": "1", "depends_on": ["1"]}]}), "PLN010", "wait"),
        ('{"title": "x", "steps": [{"index": "1",]}', "DAG001", ""),
        (json.dumps({"steps": [{"index": "1"}]}), "DAG010", ""),
    ],
)
def test_invalid_answer_is_refused_and_nothing_is_stored(home, answer, code, said):
    home.write("answer.txt", answer)
    refused = create(home)
    assert refused["diagnostics"][0]["code"] == code
    assert said in json.dumps(refused, ensure_ascii=False)
    assert home.json("plan", "list") == []


def test_control_characters_of_model_are_escaped(home):
    home.write("answer.txt", json.dumps({**PLAN, "title": "Add\x1b[2J\x07 numbers"}))
    said = home("plan", "create", "g", "--model", "model.py:ask", "--tools", "tools.py")
    assert said.exit_code == 0
    assert "\x1b" not in said.output
    assert "\x07" not in home("plan", "list").output


def test_missing_model_error_names_remedy(home):
    result = home("plan", "create", "x")
    assert result.exit_code == 2
    assert "error PLN011: no model is configured" in result.stderr
    assert "--model FILE.py:FUNCTION" in result.stderr
    prompt = home("plan", "create", "tidy up", "--prompt")
    assert prompt.exit_code == 0
    assert "tidy up" in prompt.stdout
    assert "read_file(path: string" in prompt.stdout


def test_answer_from_stdin_is_stored(home):
    answer = (home.folder / "answer.txt").read_text()
    assert home.json("plan", "save", "-", stdin=answer)["id"] == "add-numbers"


def test_model_failure_has_no_traceback(home):
    home.write("model.py", "def ask(messages):\n    raise RuntimeError('no power')\n")
    assert create(home)["diagnostics"][0]["message"].endswith("RuntimeError: no power")
    assert home.json("plan", "create", "x", "--model", "model.py:none")["diagnostics"][0]["code"] == "PLN011"
    assert home("plan", "create", "x", "--model", "model.py").exit_code == 2


class _Endpoint(BaseHTTPRequestHandler):
    """A server that speaks chat completions."""

    seen: ClassVar[list[dict[str, object]]] = []

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.seen.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        status = 401 if self.headers.get("Authorization") != "Bearer s3cret" else 200
        answer = {
            "choices": [{"message": {"role": "assistant", "content": json.dumps(PLAN)}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20},
        }
        data = json.dumps(answer if status == 200 else {"error": "who are you?"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def endpoint(home, monkeypatch):
    """A configured endpoint on this machine."""
    _Endpoint.seen.clear()
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    config = home.write("config.toml", f'[model]\nurl = "{url}"\nname = "small"\nkey_env = "MY_KEY"\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", str(home.folder / config))
    monkeypatch.setenv("MY_KEY", "s3cret")
    yield _Endpoint
    server.shutdown()
    thread.join()
    server.server_close()


def test_configured_endpoint_is_asked(home, endpoint):
    made = home.json("plan", "create", "add", "--tools", "tools.py")
    assert made["id"] == "add-numbers"
    (asked,) = endpoint.seen
    assert (asked["path"], asked["model"]) == ("/v1/chat/completions", "small")
    assert asked["messages"][1]["content"].startswith("Goal:\nadd")


def test_endpoint_refusal_is_shown_without_key(home, endpoint, monkeypatch):
    monkeypatch.setenv("MY_KEY", "wr0ng")
    said = home("plan", "create", "add", "--tools", "tools.py")
    assert said.exit_code == 2
    assert "error MDL003" in said.stderr
    assert "status 401" in said.stderr
    assert "wr0ng" not in said.output
    monkeypatch.delenv("MY_KEY")
    assert "MY_KEY with its key is not set" in home("plan", "create", "add", "--tools", "tools.py").stderr


def test_unreachable_endpoint_is_reported(home, monkeypatch):
    home.write("config.toml", '[model]\nurl = "http://127.0.0.1:9/v1"\nname = "x"\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", str(home.folder / "config.toml"))
    assert home.json("plan", "create", "add")["diagnostics"][0]["code"] == "MDL006"


def test_plans_in_every_syntax_are_stored_listed_and_shown(home):
    home.write("hi.ltp", LTP)
    home.write("tea.micro", 'search "tea" > hits\nrespond hits\n')
    home.write("add.yaml", f"title: {PLAN['title']}\nsteps: {json.dumps(PLAN['steps'])}\n")
    for name in ("hi.ltp", "tea.micro", "add.yaml"):
        assert home("plan", "save", name).exit_code == 0
    listed = home.json("plan", "list")
    assert [(p["id"], p["syntax"], p["steps"]) for p in listed] == [
        ("add-numbers", "dag", 2),
        ("greet", "ltp", 1),
        ("tea", "micro", 2),
    ]
    assert home("plan", "show", "greet", "--text").stdout == LTP
    assert "○ 1. Add" in home("plan", "show", "add").stdout
    assert home.json("plan", "show", "tea")["steps"][0]["id"] == "S1"
    done = home.json("plan", "run", "greet", "--var", "name=Ada", "--no-journal")
    assert done["response"] == "hi Ada"
    assert "add-numbers  dag" in home("plan", "list").stdout


def test_plan_is_renamed_deleted_and_not_overwritten_by_default(home):
    home.write("p.json", json.dumps({**PLAN, "id": "one"}))
    assert home("plan", "save", "p.json").exit_code == 0
    assert home.json("plan", "save", "p.json")["diagnostics"][0]["code"] == "PLN003"
    assert home("plan", "save", "p.json", "--replace").exit_code == 0
    assert home.json("plan", "rename", "on", "two")["id"] == "two"
    assert home.json("plan", "show", "two")["id"] == "two"
    assert home.json("plan", "delete", "tw")["deleted"] == ["two"]
    assert home.json("plan", "show", "two")["diagnostics"][0]["code"] == "PLN002"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "A", "a/b", ""])
@pytest.mark.parametrize("command", [("show",), ("run",), ("resume",), ("delete",), ("rename",)])
def test_commands_refuse_ids_that_leave_folder(home, command, name):
    more = ("new",) if command == ("rename",) else ()
    assert home.json("plan", *command, name, *more)["diagnostics"][0]["code"] == "PLN001"


def test_folder_is_set_by_option_or_environment(home, monkeypatch):
    home.write("p.json", json.dumps({**PLAN, "id": "one"}))
    home("plan", "save", "p.json", "--plans", "team")
    assert (home.folder / "team" / "one.json").exists()
    monkeypatch.setenv("CALLSHEET_PLANS", str(home.folder / "team"))
    assert [p["id"] for p in home.json("plan", "list")] == ["one"]


def test_newest_run_is_resumed_by_plan_id(home):
    steps = [
        {**STEP, "index": "1"},
        {
            "index": "2",
            "title": "Look",
            "tool": "read_file",
            "args": {"path": "late.txt"},
            "depends_on": ["1"],
            "result_variable": "text",
        },
    ]
    home.write("p.json", json.dumps({"id": "look-later", "title": "Look", "steps": steps}))
    home("plan", "save", "p.json")
    assert home.json("plan", "run", "look", "--tools", "tools.py")["status"] == "failed"
    home.write("late.txt", "here")
    done = home.json("plan", "resume", "look")
    assert (done["status"], done["response"]) == ("done", "here")
    assert home.json("plan", "resume", "look-later")["run_id"] == done["run_id"]
    assert home.json("plan", "resume", "other")["diagnostics"][0]["code"] == "PLN002"
    home("plan", "delete", "look-later")
    assert home.json("plan", "resume", "look-later")["status"] == "done"


def test_run_of_changed_plan_resumes_only_if_accepted(home):
    late = {**STEP, "index": "1", "tool": "read_file", "args": {"path": "late.txt"}}
    plan = {"id": "look", "title": "Look", "steps": [{**late, "result_variable": "text"}]}
    home.write("p.json", json.dumps(plan))
    home("plan", "save", "p.json")
    assert home.json("plan", "run", "look")["status"] == "failed"
    home.write("late.txt", "here")
    home.write("p.json", json.dumps({**plan, "title": "Look once more"}))
    home("plan", "save", "p.json", "--as", "look")
    late["args"] = {"path": "other.txt"}
    home.write(
        "p.json", json.dumps({**plan, "steps": [{**late, "result_variable": "text"}, {**STEP, "index": "2"}]})
    )
    home("plan", "save", "p.json", "--as", "look")
    (refused,) = home.json("plan", "resume", "look")["diagnostics"]
    assert refused["code"] == "PLN029"
    assert refused["message"] == "the plan look has changed since its run started: step 1, step 2 is new"
    assert home("plan", "resume", "look").exit_code == 2
    done = home.json("plan", "resume", "look", "--accept-changed-plan")
    assert (done["status"], done["response"]) == ("done", "here")
    assert home.json("plan", "resume", "look")["status"] == "done"


def test_steps_completed_by_another_program_are_not_run_again(home):
    look = {
        **STEP,
        "index": "1",
        "tool": "read_file",
        "args": {"path": "gone.txt"},
        "result_variable": "text",
    }
    write = {**STEP, "index": "2", "tool": "write_file", "depends_on": ["1"], "result_variable": "wrote"}
    write["args"] = {"path": "out.txt", "content": "${text}, ${who}"}
    home.write(
        "p.json",
        json.dumps({"id": "two", "title": "Two", "variables": {"who": "you"}, "steps": [look, write]}),
    )
    home("plan", "save", "p.json")
    done = {"text": "from before", "who": "Ada"}
    home.write("state.json", json.dumps({"plan_id": "two", "completed_steps": ["1"], "variables": done}))
    result = home("plan", "run", "two", "--state", "state.json")
    assert (result.exit_code, (home.folder / "out.txt").read_text()) == (0, "from before, Ada")
    assert "resuming, 1 step completed" in result.stderr
    assert "started  @READ_FILE" not in result.stderr
    assert home.json("run", "p.json", "--state", "state.json", "--var", "who=Bo")["status"] == "done"
    assert (home.folder / "out.txt").read_text() == "from before, Bo"
    for told, why in (
        ("{", "not JSON"),
        (json.dumps({"plan_id": "x"}), "of the plan x"),
        ("\udcff", "UTF-8"),
    ):
        (home.folder / "state.json").write_text(told, "utf-8", "surrogateescape")
        (refused,) = home.json("plan", "run", "two", "--state", "state.json")["diagnostics"]
        assert (refused["code"], why in refused["message"]) == ("PLN028", True)
    os.truncate(home.folder / "state.json", 100_000_001)
    assert "it is larger than 100 MB" in home("plan", "run", "two", "--state", "state.json").stderr
    assert len(home.json("runs")) == 2


@pytest.mark.parametrize("more", [("--dry-run",), ("--no-journal",), ("--engine", "temporal")])
def test_state_file_needs_recorded_local_run(home, more):
    home.write("p.json", json.dumps({**PLAN, "id": "one"}))
    home.write("state.json", "{}")
    result = home("run", "p.json", "--state", "state.json", *more)
    assert (result.exit_code, "--state" in result.stderr) == (2, True)


def test_failed_plan_gets_new_steps_from_model(home):
    home.write("p.json", json.dumps(FAILING))
    home("plan", "save", "p.json")
    again = {"steps": [{**STEP, "index": "1", "args": {"a": "${sum}", "b": 4}, "result_variable": "total"}]}
    home.write("answer.txt", json.dumps(again))
    line = ("plan", "run", "flaky", "--tools", "tools.py", "--model", "model.py:ask")
    assert home.json(*line)["status"] == "failed"
    done = home.json(*line, "--replan", "2")
    assert (done["status"], done["variables"]["total"], done["replanned"]) == ("done", 7, True)
    asked = json.loads((home.folder / "asked.json").read_text())[1]["content"]
    assert "Failed:\\n- 2. Fail [fail]: failed" in json.dumps(asked)
    assert "RuntimeError: no" not in asked
    assert "${sum}: a number" in asked
    shown = home.json("show", done["run_id"])
    assert [(s["step"], s["outcome"]) for s in shown["steps"]] == [
        ("1", "ok"),
        ("2", "failed"),
        ("RE-PLAN", "ok"),
        ("r1-1", "ok"),
    ]
    assert "@ADD (a=$sum, b=4)" in home("show", done["run_id"]).stdout
    assert home("runs", "verify").exit_code == 0


def test_replan_without_model_is_refused_before_anything_runs(home):
    home.write("p.json", json.dumps(FAILING))
    said = home.json("run", "p.json", "--tools", "tools.py", "--replan", "1")
    assert said["diagnostics"][0]["code"] == "PLN011"
    assert home.json("runs") == []


def test_run_resumed_with_replan_uses_its_original_model(home):
    home.write("p.json", json.dumps(FAILING))
    again = {"steps": [{**STEP, "index": "1", "args": {"a": "${sum}", "b": 4}, "result_variable": "total"}]}
    home.write("answer.txt", json.dumps(again))
    first = home.json("run", "p.json", "--tools", "tools.py", "--model", "model.py:ask")
    assert first["status"] == "failed"
    done = home.json("resume", first["run_id"], "--replan", "1")
    assert (done["status"], done["variables"]["total"]) == ("done", 7)
