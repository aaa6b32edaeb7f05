"""`callsheet compile`: the plan library first, then one model request; no answer is lost."""

from __future__ import annotations

import json

import pytest

from callsheet.api.requirements import local_registry, pins_for_library
from callsheet.frontends.ltp import parse
from callsheet.ports.python_tools import load_tools
from callsheet.store.library import PlanLibrary
from providers import FAILURES, answer, refuses, serving

GOAL = "Add one and two"
GOOD = 'S1: @add (a=1, b=2) > $v1\nS2: @respond ("It is", $v1)'
TEXT = (
    "# ltp: 1\n# goal: Add one and two\nPLAN_START\nS1: @ADD (a=1, b=2) > $add\n"
    'S2: @RESPOND ("It is", $add)\nPLAN_END\n'
)
WRONG = "S1: @plus (a=1, b=2) > $v1\nS2: @respond ($v1)"


@pytest.fixture
def home(machine):
    """A machine whose model is a function that returns answers from a file and records its requests."""
    machine.write(
        "model.py",
        "import json, pathlib\n"
        "def ask(messages):\n"
        "    asked = pathlib.Path('asked.json')\n"
        "    before = json.loads(asked.read_text()) if asked.exists() else []\n"
        "    asked.write_text(json.dumps([*before, messages]))\n"
        "    answers = json.loads(pathlib.Path('answers.json').read_text())\n"
        "    return answers[min(len(before), len(answers) - 1)]\n",
    )
    machine.write("answers.json", json.dumps([GOOD]))
    return machine


LINE = ("compile", GOAL, "--model", "model.py:ask", "--tools", "tools.py")


def asked(home):
    path = home.folder / "asked.json"
    return json.loads(path.read_text()) if path.exists() else []


def test_compiled_goal_prints_runnable_plan(home):
    done = home(*LINE)
    assert (done.exit_code, done.stdout) == (0, TEXT)
    assert "1 call of function:ask" in done.stderr
    home.write("plan.ltp", done.stdout)
    assert home.json("run", "plan.ltp", "--tools", "tools.py")["response"] == "It is 3"


def test_out_writes_plan_to_file(home):
    done = home(*LINE, "--out", "plan.ltp")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (home.folder / "plan.ltp").read_text() == TEXT


def test_new_writes_plan_from_goal_and_overwrites_none(home):
    line = ("new", "flows/sum.ltp", "--goal", *LINE[1:])
    done = home(*line)
    assert done.exit_code == 0, done.stderr
    assert (home.folder / "flows" / "sum.ltp").read_text() == TEXT
    assert "callsheet dry-run flows/sum.ltp" in done.stdout
    again = home(*line)
    assert (again.exit_code, "exists already" in again.stderr) == (2, True)
    assert len(asked(home)) == 1
    assert "is no file for a plan" in home("new", "x.txt", "--goal", *LINE[1:]).stderr
    assert home("new", "x.ltp", "--template", "steps", "--goal", *LINE[1:]).exit_code == 2
    home.write("answers.json", json.dumps([WRONG]))
    wrong = home("new", "wrong.ltp", "--goal", *LINE[1:])
    assert (wrong.exit_code, (home.folder / "wrong.ltp").exists()) == (2, False)


def test_json_has_plan_and_usage(home):
    home.write("answers.json", json.dumps([WRONG, GOOD]))
    told = home.json(*LINE)
    assert (told["ok"], told["text"], told["from"], told["near"]) == (True, TEXT, "model", [])
    spent = told["accounting"]
    assert (spent["calls"], spent["repaired"], spent["model"]) == (2, True, "function:ask")
    assert "no tool is called @PLUS" in asked(home)[1][-1]["content"]


def test_plan_invalid_after_repair_exits_with_2_and_is_shown(home):
    home.write("answers.json", json.dumps([WRONG]))
    done = home(*LINE)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "error CMP007: the plan is wrong, even after one repair" in done.stderr
    assert "error CHK040" in done.stderr
    assert WRONG in done.stderr
    assert "2 calls of function:ask" in done.stderr


def test_invalid_answer_is_written_beside_out_path(home):
    home.write("answers.json", json.dumps([WRONG]))
    done = home(*LINE, "--out", "plan.ltp")
    assert done.exit_code == 2
    assert not (home.folder / "plan.ltp").exists()
    assert (home.folder / "plan.ltp.rejected").read_text() == WRONG
    told = home.json(*LINE)
    assert (told["ok"], told["answer"], told["text"]) == (False, WRONG, None)
    assert [d["code"] for d in told["diagnostics"]][:2] == ["CMP007", "CHK040"]


def test_unwritable_answer_is_printed(home):
    done = home(*LINE, "--out", "no/such/folder/plan.ltp")
    assert done.exit_code == 2
    assert "CFG014" in done.stderr
    assert "@ADD (a=1, b=2)" in done.stderr


def test_missing_model_error_names_remedy(home):
    done = home("compile", GOAL, "--tools", "tools.py")
    assert done.exit_code == 2
    assert "error CMP001" in done.stderr
    assert "--model" in done.stderr


def test_empty_goal_makes_no_request(home):
    assert "CMP002" in home("compile", " ", *LINE[2:]).stderr
    assert asked(home) == []


def test_prompt_is_printed_without_request(home):
    done = home(*LINE, "--prompt", "--context", "They are small.")
    assert done.exit_code == 0
    assert "async def add(a: int, b: int" in done.stdout
    done = home(*LINE, "--as", "ltp", "--prompt", "--context", "They are small.")
    assert "@add (a: int, b?: int)" in done.stdout
    assert "<goal>\nAdd one and two\n</goal>" in done.stdout
    assert "They are small." in done.stdout
    assert [m["role"] for m in home.json(*LINE, "--prompt")["messages"]] == ["system", "user"]
    assert "<goal>" in home("compile", GOAL, "--prompt").stdout  # no model is needed for it
    assert asked(home) == []


def test_printed_prompt_is_the_one_that_a_model_of_a_small_context_is_asked(home):
    with serving() as provider:
        provider.listed = {"data": [{"id": "m", "meta": {"n_params": 10**9, "n_ctx": 2001}}]}
        line = ("compile", GOAL, "--model", f"{provider.url}/v1", "--tools", "tools.py")
        home(*line)
        assert home.json(*line, "--prompt")["messages"] == provider.asked[0].body["messages"]


# ---------------------------------------------------------------- the plan library


KEPT = ("--plans", "kept")


def keep(home, goal=GOAL):
    """Store a plan for a goal, with the tools that it was made for."""
    registry = local_registry(load_tools(home.folder / "tools.py"), None)
    plan = parse(TEXT.replace(GOAL, goal)).require()
    tools = pins_for_library(plan, registry)
    PlanLibrary(home.folder / "kept").save(plan, "sums", tools=tools, goal=goal)


def test_saved_plan_answers_its_goal_next_time(home):
    done = home(*LINE, "--save-as", "sums", *KEPT)
    assert (done.exit_code, done.stdout) == (0, TEXT)
    assert "callsheet run sums" in done.stderr
    stored = PlanLibrary(home.folder / "kept").load("sums")
    assert (stored.text, stored.version, stored.record.goal) == (TEXT, 1, GOAL)
    assert stored.tools["ADD"] is not None
    assert stored.compiled["model"] == "function:ask"
    assert home.json("compile", GOAL, "--tools", "tools.py", *KEPT)["from"] == "library"
    assert len(asked(home)) == 1
    home.write("answers.json", json.dumps([GOOD.replace("b=2", "b=3")]))
    told = home.json(*LINE, "--no-library", "--save-as", "sums", *KEPT)
    assert told["saved"] == {"id": "sums", "version": 2}


PROGRAM = """\
async def main():
    total = await add(a=1, b=2)
    if total > 2:
        return f"It is {total}"
    return "It is small"
"""


def test_program_is_printed_saved_and_run_as_it_was_written(home):
    home.write("answers.json", json.dumps([f"```python\n{PROGRAM}```"]))
    done = home(*LINE, "--out", "plan.py", "--save-as", "sums", *KEPT)
    assert (done.exit_code, done.stdout) == (0, "")
    text = (home.folder / "plan.py").read_text()
    assert text == f'"""{GOAL}"""\n\n{PROGRAM}'
    assert (home.folder / "kept" / "sums.py").read_text() == text
    assert PlanLibrary(home.folder / "kept").load("sums").require().goal == GOAL
    for plan in ("plan.py", "sums"):
        assert home.json("run", plan, "--tools", "tools.py", *KEPT)["response"] == "It is 3"
    again = home.json("compile", GOAL, "--tools", "tools.py", *KEPT)
    assert (again["from"], len(asked(home))) == ("library", 1)


def test_json_has_syntax_and_same_plan_as_ltp(home):
    home.write("answers.json", json.dumps([PROGRAM]))
    told = home.json(*LINE, "--no-library")
    assert told["syntax"] == "python"
    assert PROGRAM in told["text"]
    home.write("plan.ltp", told["ltp"])
    assert home.json("run", "plan.ltp", "--tools", "tools.py")["response"] == "It is 3"


@pytest.mark.parametrize(
    ("form", "begins"), [("ltp", "# ltp: 1\n"), ("micro", "@ADD a=1 b=2 > add"), ("json", "{")]
)
def test_other_forms_are_given_on_request(home, form, begins):
    done = home(*LINE, "--as", form, "--no-library")
    assert done.exit_code == 0, done.stderr
    assert begins in done.stdout
    home.write("plan.txt", done.stdout)
    assert home.json("run", "plan.txt", "--tools", "tools.py")["status"] == "done"


def test_invalid_plan_is_not_saved_and_bad_id_makes_no_request(home):
    assert "PLN001" in home(*LINE, "--save-as", "no/id", *KEPT).stderr
    assert asked(home) == []
    home.write("answers.json", json.dumps([WRONG]))
    assert home(*LINE, "--save-as", "sums", *KEPT).exit_code == 2
    assert PlanLibrary(home.folder / "kept").ids() == ()


def test_stored_plan_for_goal_is_used_without_model(home):
    keep(home)
    done = home("compile", "add one  and two.", "--tools", "tools.py", *KEPT)
    assert (done.exit_code, done.stdout) == (0, TEXT)
    assert "no model was asked" in done.stderr
    told = home.json("compile", GOAL, "--tools", "tools.py", *KEPT)
    assert (told["ok"], told["from"], told["text"]) == (True, "library", TEXT)
    assert told["id"].startswith("sums")


def test_library_can_be_skipped(home):
    keep(home)
    assert home.json(*LINE, *KEPT, "--no-library")["from"] == "model"
    assert len(asked(home)) == 1


def test_plan_for_similar_goal_is_shown_and_not_used(home):
    keep(home, "Add one and two and three")
    done = home(*LINE, *KEPT)
    assert "a similar goal" in done.stderr
    assert "Add one and two and three" in done.stderr
    assert done.stdout == TEXT
    assert len(asked(home)) == 1


def test_stored_plan_with_missing_tools_is_not_used(home):
    keep(home)
    told = home("compile", GOAL, *KEPT)
    assert told.exit_code == 2
    assert "CMP001" in told.stderr


# ---------------------------------------------------------------- when the provider fails


def configured(machine, monkeypatch, provider, **more):
    """The compile command with the model of this provider."""
    said = {"url": f"{provider.url}/v1", "name": "small", **more}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in said.items())
    monkeypatch.setenv("CALLSHEET_CONFIG", str(machine.folder / machine.write("c.toml", f"[model]\n{lines}")))
    monkeypatch.delenv("CALLSHEET_MODEL", raising=False)
    return "compile", GOAL, "--tools", "tools.py", "--no-library"


@pytest.mark.parametrize("wrong", FAILURES)
def test_provider_failure_has_code_and_next_command_works(machine, monkeypatch, wrong):
    behaviour, code = FAILURES[wrong]
    code = "CMP005" if wrong == "empty" else code  # what is empty is no plan: asked for again, then told so
    with serving(always=behaviour) as provider:
        line = configured(machine, monkeypatch, provider, retries=0, timeout=2.0 if wrong == "slow" else 60.0)
        said = machine(*line)
        assert (said.exit_code, said.stdout) == (2, "")
        assert f"error {code}: " in said.stderr or f"{code}: " in said.stderr
        assert "Traceback" not in said.stderr
        assert len(said.stderr) < 1_500  # noise is not passed on
        told = machine.json(*line)
        assert (told["ok"], code in {d["code"] for d in told["diagnostics"]}) == (False, True)
        provider.always = answer(GOOD)
        assert machine(*line).stdout == TEXT


def test_constraint_refused_by_provider_is_dropped_with_note(machine, monkeypatch):
    def refusing(request) -> None:
        held = "grammar" in request.asked.body
        (refuses(400, "grammar is not supported") if held else answer(GOOD))(request)

    with serving(always=refusing) as provider:
        done = machine(*configured(machine, monkeypatch, provider, kind="llama.cpp"), "--as", "ltp")
    assert (done.exit_code, done.stdout) == (0, TEXT)
    assert "constraint: none: omitted" in done.stderr
    assert ["grammar" in asked.body for asked in provider.asked] == [True, False]


@pytest.mark.parametrize("llguidance", [False, True])
def test_server_silently_ignoring_grammar_is_detected(machine, monkeypatch, llguidance):
    """Like llama.cpp with a grammar of llguidance that it cannot compile."""
    prose = "Sure! Here is how I would add one and two with the tools that I have."
    with serving(answer(prose), answer(GOOD)) as provider:
        done = machine(
            *configured(machine, monkeypatch, provider, kind="llama.cpp", llguidance=llguidance),
            "--as",
            "ltp",
        )
    assert (done.exit_code, done.stdout) == (0, TEXT)
    syntax = "lark" if llguidance else "gbnf"
    assert f"keep its answer to a grammar ({syntax}), but did not" in done.stderr
    assert "MDL030" in done.stderr
    assert f"constraint: none: the answer does not match {syntax}" in done.stderr
    assert ["grammar" in asked.body for asked in provider.asked] == [True, False]


def test_answer_allowed_by_grammar_raises_no_doubt(machine, monkeypatch):
    thinking = answer("<think>\nOne and two.\n</think>\n\n" + GOOD)
    for said in (answer(GOOD), thinking):
        with serving(always=said) as provider:
            done = machine(*configured(machine, monkeypatch, provider, kind="llama.cpp"), "--as", "ltp")
        assert done.stdout == TEXT
        assert "MDL030" not in done.stderr


KEEPS = ('S1: @READ_FILE (path="notes.txt") > $a', 'S2: @WRITE_FILE (path="docs/new.md", content=$a)')
SENDS = (
    'S1: @read_file (path="docs/new.md") > $v1\n'
    'S2: @fetch_page (url="https://x.example/$v1") > $v2\nS3: @respond ($v2)'
)


def test_labels_of_files_from_earlier_runs_count_for_a_compiled_plan_and_one_of_the_library(home):
    home.write("notes.txt", "private\n")
    home.write("docs/old.md", "public\n")
    home.write("answers.json", json.dumps([SENDS]))
    line = ("compile", "Fetch what the file names", "--model", "model.py:ask", "--policy", "workspace")
    assert home(*line, "--save-as", "sender").exit_code == 0
    assert home("run", home.plan(*KEEPS), "--policy", "workspace").exit_code == 0
    from_library = home(*line)
    assert (from_library.exit_code, "POL103" in from_library.stderr) == (3, True)
    made = home(*line, "--no-library")
    assert (made.exit_code, "POL103" in made.stderr) == (2, True)
    assert "S1 reads data that an earlier run has left" in asked(home)[-1][-1]["content"]
    assert home("labels", "forget", "docs/new.md").exit_code == 0
    assert home(*line, "--no-library").exit_code == 0


def test_compiled_plan_that_writes_policy_is_refused(home):
    home.write("p.toml", 'schema = 1\nextends = "workspace"\n')
    write = 'S1: @write_file (path="p.toml", content="x") > $v1\nS2: @respond ($v1)'
    home.write("answers.json", json.dumps([write]))
    line = ("compile", "Write x to p.toml", "--model", "model.py:ask", "--policy", "p.toml")
    done = home(*line)
    assert (done.exit_code, "POL" in done.stderr) == (2, True), done.stderr


ASKS = "QUESTION: Which of the two sums?"


def test_question_fails_with_its_words_where_nobody_can_answer(home):
    home.write("answers.json", json.dumps([ASKS, GOOD]))
    done = home(*LINE)
    assert (done.exit_code, len(asked(home))) == (2, 1)
    assert "CMP012: the model asks before it writes a plan: Which of the two sums?" in done.stderr
    home.write("answers.json", json.dumps([ASKS, ASKS]))
    done = home(*LINE, "--json")
    told = json.loads(done.stdout)
    assert (told["ok"], told["question"]) == (False, "Which of the two sums?")


def test_question_is_answered_at_the_terminal_and_the_goal_compiled_again(home, monkeypatch):
    monkeypatch.setattr("callsheet.apps.cli.compile.is_terminal", lambda _: True)
    home.write("answers.json", json.dumps([ASKS, GOOD]))
    done = home(*LINE, stdin="the first one\n")
    assert (done.exit_code, done.stdout) == (0, TEXT)
    assert "the model asks before it writes a plan:\n  Which of the two sums?" in done.stderr
    assert "(You asked: Which of the two sums?\nAnswer: the first one)" in asked(home)[1][-1]["content"]


def test_empty_answer_at_the_terminal_stops(home, monkeypatch):
    monkeypatch.setattr("callsheet.apps.cli.compile.is_terminal", lambda _: True)
    home.write("answers.json", json.dumps([ASKS, GOOD]))
    done = home(*LINE, stdin="\n")
    assert (done.exit_code, len(asked(home))) == (2, 1)
    assert "CMP012" in done.stderr
