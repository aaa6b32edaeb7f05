"""Files of cases: how they are read, what differs, and what `callsheet test` and `callsheet record` do."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from callsheet import CallsheetError, ChatModel, Runtime, tool
from callsheet.apps.cli.main import main
from callsheet.testing import read_cases, run_file
from callsheet.testing.cassette import toml

PLANS = Path(__file__).parent / "version1_plans"
GOOD = """
[[fakes]]
tool = "list_messages"
answer = [
  { subject = "URGENT: down", sender = "ann@x.example" },
  { subject = "Lunch", sender = "bob@x.example" },
]

[[cases]]
name = "urgent mail is answered, the rest is filed"
fakes = [
  { tool = "reply", answer = "sent" },
  { tool = "count_messages", answer = 2 },
  { tool = "file_messages", answer = { count = 2 } },
]
message = "Filed 2 messages"
calls = [
  { tool = "list_messages" },
  { tool = "reply", args = { to = "ann@x.example", text = "We are on it: URGENT: down" } },
  { tool = "count_messages" },
  { tool = "file_messages" },
]

[[cases]]
name = "an empty inbox"
fakes = [{ tool = "list_messages", answer = [] }]
answer = "The inbox is empty."
"""
TAPE = '{"kind": "callsheet.cassette", "version": 1, "calls": %s}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("inbox.ltp", "inbox_tools.py", "approval.ltp"):
        shutil.copy(PLANS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def callsheet(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def write(folder: Path, text: str, name: str = "inbox.test.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_cases_that_pass_are_dots_and_exit_0(folder: Path) -> None:
    write(folder, GOOD)
    done = callsheet("test")
    assert done.exit_code == 0
    assert done.output.startswith("inbox.test.toml ..\n2 cases: 2 passed in")


def test_a_failure_names_the_place_in_the_plan_and_the_difference(folder: Path) -> None:
    write(folder, GOOD.replace("is empty.", "was empty.").replace('to = "ann@', 'to = "amy@'))
    done = callsheet("test")
    assert done.exit_code == 1
    assert "inbox.test.toml FF\n" in done.output
    assert 'inbox.ltp:5: answer: expected "The inbox was empty.", was "The inbox is empty."' in done.output
    assert 'inbox.ltp:6: call 2 @REPLY.to: expected "amy@x.example", was "ann@x.example"' in done.output
    assert callsheet("test", "-k", "nothing").exit_code == 2
    assert "2 cases" not in callsheet("test", "-k", "empty").output


def test_the_formats_of_ci_services_say_the_same(folder: Path) -> None:
    write(folder, GOOD.replace("is empty.", "was empty."))
    line = callsheet("test", "--format", "github").output.strip()
    assert line.startswith("::error file=inbox.ltp,line=5,title=TST002::an empty inbox: answer: expected")
    root = ElementTree.fromstring(callsheet("test", "--format", "junit").output)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert len(root.findall("./testsuite/testcase/failure")) == 1
    (row,) = json.loads(callsheet("test", "--format", "gitlab").output)
    assert row["location"] == {"path": "inbox.ltp", "lines": {"begin": 5}}
    data = json.loads(callsheet("test", "--json").output)
    assert (data["version"], data["ok"], [case["passed"] for case in data["cases"]]) == (
        1,
        False,
        [True, False],
    )


def test_coverage_has_a_report_and_a_threshold(folder: Path) -> None:
    write(folder, GOOD)
    done = callsheet("test", "--min-cover", "90")
    assert done.exit_code == 1
    assert (
        "inbox.ltp: 71 % covered (steps 6 of 7, branches 5 of 6, items 1 of 2, failures 0 of 2)"
        in done.output
    )
    assert "line 4: not tested: S1 fails for good" in done.output
    assert callsheet("test", "--min-cover", "70").exit_code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[[fakes]]", "[[fake]]"), "the file has an unknown key 'fake'"),
        (("message =", "mesage ="), "has an unknown key 'mesage'"),
        (('name = "an empty inbox"', "name = 3"), "case 2: name must be a text"),
        (("answer = [] }", "answer = [], fails = 'x' }"), "has an answer and a failure"),
        (("[[cases]]", "[[cases]"), "this is not TOML"),
        (('name = "an empty inbox"', 'name = "urgent mail is answered, the rest is filed"'), "two cases are"),
        (('answer = "The inbox', 'outcome = "fine"\nanswer = "The inbox'), "outcome must be one of"),
        (
            ('answer = "The inbox', 'cassette = "no.json"\nanswer = "The inbox'),
            "the cassette no.json cannot be read",
        ),
        (("answer = 2 }", "answer = 2026-01-01 }"), "is a time of TOML"),
        (("answer = 2 }", "answer = inf }"), "inf is a number of TOML"),
        (("answer = 2 }", "answer = 2, seconds = inf }"), "seconds must be a number from 0"),
        (("answer = 2 }", "answer = { json = '{' } }"), "json = … is not JSON"),
        (("message =", 'replies = [{ to = "x", nobody = false }]\nmessage ='), "nobody can only be true"),
        (("message =", 'replies = [{ to = "", nobody = true }]\nmessage ='), "does not say what it is to"),
        (
            ('answer = "The inbox', 'outcome = "running"\nanswer = "The inbox'),
            "outcome must be one of done, ",
        ),
    ],
)
def test_a_wrong_file_is_an_error_with_its_place(folder: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(CallsheetError, match=re.escape(message)) as caught:
        read_cases(write(folder, GOOD.replace(*change, 1)))
    assert caught.value.diagnostics[0].span is not None
    assert caught.value.diagnostics[0].code == "TST001"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "is not JSON"),
        ("[1]", "is no cassette"),
        ('{"kind": "callsheet.cassette", "version": 9}', "has the version 9"),
        (TAPE.replace('"calls"', '"policy": 3, "calls"') % "[]", "has a policy that cannot be read"),
        (TAPE % "3", "calls must be a list of tables"),
        (TAPE % "[3]", "each of calls in the case 'an empty inbox': the cassette tape.json must be a table"),
        (TAPE % '[{"too": 1}]', "call 1 has an unknown key 'too'"),
        (TAPE % '[{"args": {}}]', "call 1 does not name its tool"),
        (TAPE % '[{"tool": 3}]', "call 1: tool must be a text"),
        (TAPE % '[{"tool": "a", "args": 3}]', "call 1: args must be a table"),
        (TAPE % '[{"tool": "a", "error": "x", "kind": "ODD"}]', "kind must be TIMEOUT or SCHEMA"),
    ],
)
def test_a_damaged_cassette_is_an_error_with_its_place(folder: Path, text: str, message: str) -> None:
    (folder / "tape.json").write_text(text)
    path = write(folder, GOOD.replace('answer = "The inbox', 'cassette = "tape.json"\nanswer = "The inbox'))
    with pytest.raises(CallsheetError, match=re.escape(message)) as caught:
        read_cases(path)
    assert caught.value.diagnostics[0].code == "TST001"


def test_without_a_plan_beside_it_the_file_has_to_name_one(folder: Path) -> None:
    with pytest.raises(CallsheetError, match=r"no plan other\.ltp"):
        read_cases(write(folder, GOOD, "other.test.toml"))
    named = read_cases(write(folder, 'plan = "inbox.ltp"\n' + GOOD, "other.test.toml"))
    assert all(one.passed for one in run_file(named).results)


@pytest.mark.parametrize(
    ("before", "command", "message"),
    [
        ("", ("test", "none.test.toml"), "there is no none.test.toml"),
        ("", ("test", ".", "empty"), "there is no file *.test.toml in empty"),
        ("", ("test", "inbox.ltp"), "its name ends in .test.toml; the cases of a plan stand beside it"),
        ('policy = "none.toml"\n', ("test",), "there is no policy 'none.toml'"),
        ('tools = ["none.py"]\n', ("test",), "the tools file none.py cannot be read"),
    ],
)
def test_what_cannot_be_tested_is_an_error_before_any_case(
    folder: Path, before: str, command: tuple[str, ...], message: str
) -> None:
    (folder / "empty").mkdir()
    write(folder, before + GOOD)
    done = callsheet(*command)
    assert done.exit_code == 2
    assert message in done.output
    assert "FAILED" not in done.output


def test_a_variable_is_given_once_and_has_a_name(folder: Path) -> None:
    cases = '[[cases]]\nname = "twice"\ninputs = { a = 1 }\nsecrets = { a = "x" }\n'
    cases += '[[cases]]\nname = "odd"\ninputs = { "a b" = 1 }\n'
    results = run_file(read_cases(write(folder, cases))).results
    assert [one.differences[0].text.split(":")[0] for one in results] == ["SEC005", "RUN022"]


def test_what_a_case_expects_of_a_refused_plan_is_compared(folder: Path) -> None:
    write(
        folder, 'S1: @READ_FILE (path="a") > $a\nS2: @FETCH_PAGE (url="https://x.example/?$a")\n', "leak.ltp"
    )
    cases = (
        'policy = "workspace"\n[[cases]]\nname = "good"\noutcome = "refused"\nerror = "POL103"\ncalls = []\n'
    )
    cases += '[[cases]]\nname = "bad"\noutcome = "refused"\nerror = "POL999"\nanswer = 1\n'
    cases += 'calls = [{ tool = "read_file" }]\nreplies = [{ to = "x", nobody = true }]\n'
    good, bad = run_file(read_cases(write(folder, cases, "leak.test.toml"))).results
    assert good.passed
    assert good.policy == "workspace"
    assert [one.text.partition(":")[0] for one in bad.differences] == [
        "error",
        "answer",
        "call 1",
        "nobody was asked 'x'",
    ]


def test_a_case_is_under_the_policy_of_the_option_of_its_file_or_of_the_project(folder: Path) -> None:
    write(
        folder, 'S1: @READ_FILE (path="a") > $a\nS2: @FETCH_PAGE (url="https://x.example/?$a")\n', "leak.ltp"
    )
    cases = '[[cases]]\nname = "sends"\noutcome = "refused"\n'
    write(folder, 'policy = "workspace"\n', "callsheet.toml")
    assert callsheet("trust", "project").exit_code == 0

    write(folder, cases, "leak.test.toml")
    assert callsheet("test", "leak.test.toml").output.strip().endswith(", under the policy workspace")
    assert callsheet("test", "leak.test.toml", "--policy", "open").exit_code == 1
    write(folder, f'policy = "open"\n{cases}', "leak.test.toml")
    assert callsheet("test", "leak.test.toml").output.strip().endswith(", under the policy open")


def test_replies_are_part_of_a_case_and_each_must_be_asked_for(folder: Path) -> None:
    text = """
approve = ["write_file"]
fakes = [{ tool = "write_file", answer = "written" }]

[[cases]]
name = "nobody says which"
inputs = { who = "Ada" }
replies = [{ to = "Which note", nobody = true }, { to = "write_file", approve = true, by = "Bo" }]
answer = "Written: Welcome, Ada."
seconds = 259200

[[cases]]
name = "no"
inputs = { who = "Ada" }
replies = [
  { to = "Which note", answer = "farewell" },
  { to = "write_file", approve = false },
  { to = "more", nobody = true },
]
outcome = "failed"
message = "Not written"
"""
    results = run_file(read_cases(write(folder, text, "approval.test.toml"))).results
    assert [[d.text for d in one.differences] for one in results] == [[], ["nobody was asked 'more'"]]


def test_calls_may_be_expected_as_a_set_or_among_others(folder: Path) -> None:
    exact = 'calls = [\n  { tool = "list_messages" }'
    for order, tools, passes in (
        ("any", ("file_messages", "count_messages", "list_messages", "reply"), True),
        ("any", ("file_messages",), False),
        ("some", ("list_messages", "file_messages"), True),
        ("some", ("file_messages", "list_messages"), False),
    ):
        calls = ", ".join(f'{{ tool = "{tool}" }}' for tool in tools)
        start = GOOD.index(exact)
        end = GOOD.index("]\n\n[[cases]]", start)
        text = GOOD[:start] + f'order = "{order}"\ncalls = [{calls}' + GOOD[end:]
        assert run_file(read_cases(write(folder, text))).results[0].passed is passes


def test_a_run_becomes_a_case_that_passes_and_fails_when_the_plan_changes(folder: Path) -> None:
    journal = ("--journal", str(folder / "runs.db"))
    run = callsheet("run", "inbox.ltp", "--tools", "inbox_tools.py", "--progress", "none", *journal)
    assert run.exit_code == 0
    made = callsheet("record", "last", "--name", "a real morning", *journal)
    assert made.exit_code == 0, made.output
    assert "it passes" in made.output
    assert callsheet("test").exit_code == 0
    assert callsheet("record", "last", "--name", "a real morning", *journal).exit_code == 2
    assert callsheet("record", "last", "--name", "again", *journal).exit_code == 0
    plan = folder / "inbox.ltp"
    plan.write_text(plan.read_text().replace("We are on it", "We will see"))
    done = callsheet("test", "-k", "a real morning")
    assert done.exit_code == 1
    assert "no fake of @REPLY fits these arguments" in done.output


def test_no_secret_is_in_a_recorded_case_and_large_answers_are_left_out_with_a_word(folder: Path) -> None:
    journal = ("--journal", str(folder / "runs.db"))
    write(folder, 'S1: @LOOK (key=$key) > $x\nS2: @RESPOND ("got", $x)\n', "look.ltp")
    write(folder, "from callsheet import tool\n\n\n@tool(effect='read')\ndef look(key: str) -> str:\n"
          "    return f'value for {key} ' + 'x' * 500\n", "look.py")  # fmt: skip
    (folder / "key.txt").write_text("hunter2-hunter2")
    arguments = ("--secret", "key=file:key.txt")
    run = callsheet("run", "look.ltp", "--tools", "look.py", "--progress", "none", *arguments, *journal)
    assert run.exit_code == 0, run.output
    made = callsheet("record", "last", *journal)
    assert made.exit_code == 0, made.output
    assert "left out: secrets" in made.output
    texts = [path.read_text() for path in folder.glob("look.*") if path.suffix in (".toml", ".json")]
    assert len(texts) == 2
    assert not any("hunter2" in text for text in texts)
    small = callsheet("record", "last", "--name", "small", "--max-bytes", "100", *journal)
    assert small.exit_code == 1
    assert "left out: the answer of S1 @LOOK" in small.output


def test_a_timeout_and_the_answer_of_an_agent_become_cases_that_pass(folder: Path) -> None:
    @tool(effect="read", timeout=0.01)
    async def slow() -> int:
        await asyncio.sleep(5)
        return 1

    turns = iter(['{"tool": "slow", "args": {}}', '{"finish": "not today"}'])
    timeout = "TRY {\n  S1: @SLOW > $a\n} ON_FAIL TIMEOUT {\n"
    plan = (
        f'# ltp: 2\n{timeout}  S2: @AGENT_SOLVE (goal="find it", tools=["slow"]) > $b\n  @RESPOND ($b)\n}}\n'
    )
    write(folder, plan, "late.ltp")
    runtime = Runtime([slow], model=ChatModel(lambda messages: next(turns)), journal=folder / "runs.db")
    done = runtime.run_sync(folder / "late.ltp")
    assert done.answer == "not today"
    made = callsheet("record", "last", "--journal", str(folder / "runs.db"))
    assert made.exit_code == 0, made.output
    assert "the calls that the agent of S2 made" in made.output


def test_a_case_that_cannot_be_written_leaves_everything_as_it_was(folder: Path) -> None:
    journal = ("--journal", str(folder / "runs.db"))
    callsheet("run", "inbox.ltp", "--tools", "inbox_tools.py", "--progress", "none", *journal)
    write(folder, 'plan = "inbox.ltp"\ncases = [{ name = "x" }]\n', "list.test.toml")
    before = {path: path.stat().st_mtime_ns for path in folder.glob("[!r]*")}
    for output, code in (
        ("list.test.toml", "TST003"),
        ("inbox.ltp/x.test.toml", "CFG014"),
        ("/proc/x.test.toml", "CFG014"),
        ("x.toml", "CFG014"),
    ):
        done = callsheet("record", "last", "-o", output, *journal)
        assert (done.exit_code, code in done.output) == (2, True), done.output
    assert {path: path.stat().st_mtime_ns for path in folder.glob("[!r]*")} == before


def test_a_recorded_case_runs_with_the_declarations_of_tools(folder: Path) -> None:
    journal = ("--journal", str(folder / "runs.db"))
    write(folder, 'S1: @COUNT_MESSAGES ("inbox") > $n\nS2: @RESPOND ($n)\n', "count.ltp")
    tools = ("--tools", "inbox_tools.py")
    assert callsheet("run", "count.ltp", "--progress", "none", *tools, *journal).exit_code == 0
    made = callsheet("record", "last", *tools, *journal)
    assert made.exit_code == 0, made.output
    assert "--tools inbox_tools.py" in made.output
    unknown = callsheet("record", "last", "--name", "unknown", *journal)
    assert unknown.exit_code == 1
    assert "with --tools, as to callsheet test" in unknown.output


def test_a_case_of_a_run_under_a_policy_is_under_it_too_until_the_file_names_another(folder: Path) -> None:
    journal, tools = ("--journal", str(folder / "runs.db")), ("--tools", "send.py")
    write(
        folder, "from callsheet import tool\n@tool(does='sends')\ndef send(to: str): return to\n", "send.py"
    )
    write(folder, 'schema = 1\nextends = "workspace"\n', "mail.toml")
    loop = '?FOREACH ($to IN ["a@x.example", "b@x.example"]) TOGETHER {\n  @SEND (to=$to)\n}'
    write(folder, f"# ltp: 2\nINPUT $who: str\n{loop}\n@RESPOND ($who)\n", "send.ltp")
    run = ("send.ltp", "--policy", "mail.toml", "--approve", "send", "--var", "who=Ada", "--progress", "none")
    assert callsheet("run", *run, *tools, *journal).exit_code == 4
    assert callsheet("approve", "last", "--all", *journal).exit_code == 0
    assert callsheet("resume", "last", "--progress", "none", *tools, *journal).exit_code == 0
    made = callsheet("record", "last", *tools, *journal)
    assert made.exit_code == 0, made.output
    file = folder / "send.test.toml"
    file.write_text(f'policy = "open"\n{file.read_text()}')
    assert "nobody was asked 'send'" in callsheet("test", *tools).output


def test_a_run_that_has_not_ended_is_no_case(folder: Path) -> None:
    journal = ("--journal", str(folder / "runs.db"))
    callsheet("run", "approval.ltp", "--var", "who=Ada", "--progress", "none", *journal)
    done = callsheet("record", "last", *journal)
    assert done.exit_code == 2
    assert "TST003" in done.output


def test_values_are_written_as_toml_that_reads_back() -> None:
    import tomllib

    value = {"a b": [1, True, 2.5, None], "c": 'x\n"\\\x7f\x01', "d": {}, "json": {"json": "x"}}
    assert tomllib.loads(f"v = {toml(value)}")["v"]["a b"][:3] == [1, True, 2.5]
    from callsheet.testing.case import _Reader  # pyright: ignore[reportPrivateUsage]

    reader = object.__new__(_Reader)
    assert reader._json("v", tomllib.loads(f"v = {toml(value)}")["v"]) == value


def test_what_cannot_happen_is_not_counted_and_must_not_have_happened(folder: Path) -> None:
    write(folder, 'cannot_happen = ["S3 without items"]\n' + GOOD)
    assert "75 % covered" in callsheet("test", "--cover").output
    for words, said in (
        ("S2 is executed", "has happened"),
        ("S3 wihout items", "did you mean 'S3 without items'"),
    ):
        write(folder, f'cannot_happen = ["{words}"]\n' + GOOD)
        done = callsheet("test", "--cover")
        assert done.exit_code == 2
        assert said in done.output
