"""The inputs of a plan as options of the shell: values, help, completion, mistakes."""

import json

import pytest

PLAN = """\
# ltp: 2
INPUT $repo: str  # the repository
INPUT $limit: int = 20
INPUT $kind: "bug" | "feature" = "bug"
INPUT $is_dry: bool = False
INPUT $json: str = "own"
INPUT SECRET $token: str = "t"
@RESPOND ([$repo, $limit, $kind, $is_dry, $json])
"""


@pytest.fixture
def plan(machine):
    machine.write("p.ltp", PLAN)
    return "p.ltp"


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--repo", "7"], ["7", 20, "bug", False, "own"]),
        (["--repo=a/b", "--limit=3", "--kind", "feature", "--is-dry"], ["a/b", 3, "feature", True, "own"]),
        (["--no-is-dry", "--repo", "a", "--var", "json=x"], ["a", 20, "bug", False, "x"]),
    ],
)
def test_inputs_are_options_behind_the_plan(machine, plan, options, answer):
    assert machine.json("run", plan, *options)["answer"] == answer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "RUN035: the plan needs the input $repo: str (the repository)"),
        (["--repo", "a", "--limit", "x"], "RUN037: the input $limit takes an int, not the string 'x'"),
        (["--repo", "a", "--kind", "bgu"], "'bgu' is not one of 'bug', 'feature'"),
        (["--repo", "a", "--limti", "3"], "no such option '--limti'. (Did you mean one of: '--limit'"),
        (["--repo", "a", "--token", "s"], "--token is a secret: give it with --secret token=env:…"),
        (["--repo", "a", "--repo", "b"], "--repo is given twice"),
        (["--repo", "a", "--var", "repo=b"], "--var gives repo twice"),
    ],
)
def test_mistakes_are_told_before_anything_runs(machine, plan, options, said):
    done = machine("run", plan, *options)
    assert done.exit_code == 2
    assert said in done.stderr


def test_secret_behind_var_is_warned_about(machine, plan):
    typed = machine("run", plan, "--repo", "a", "--var", "token=hunter2")
    assert typed.exit_code == 0
    assert "warning: $token is a secret, and others can read --var: use --secret token=env:…" in typed.stderr
    assert "hunter2" not in typed.stderr
    assert "warning: $token" not in machine("run", plan, "--repo", "a").stderr


@pytest.mark.parametrize("command", [["check"], ["verify", "--policy", "open"], ["dry-run"]])
def test_secret_behind_var_is_warned_about_where_nothing_runs(machine, plan, command):
    typed = machine(*command, plan, "--var", "repo=a", "--var", "token=hunter2")
    said = "warning: $token is a secret, and others can read --var: leave it out, no value is needed here"
    assert typed.stderr.count(said) == 1
    assert "hunter2" not in typed.stderr + typed.stdout


def test_errors_of_the_plan_are_told_before_options_that_nobody_knows(machine):
    machine.write("bad.ltp", "# ltp: 2\nINPUT $repo: str\n@RESPOND (repo)\n")
    assert "bad.ltp:3:11: error LTP201" in machine("run", "bad.ltp", "--repo", "a").stderr
    assert "CFG012: the plan gone.ltp cannot be read" in machine("run", "gone.ltp", "--repo", "a").stderr


def test_help_behind_a_plan_has_its_inputs(machine, plan):
    shown = machine("run", plan, "--help").stdout
    assert "--repo STR" in shown
    assert "the repository. Required" in shown
    assert "--is-dry / --no-is-dry" in shown
    assert "--repo" not in machine("run", "--help").stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [("callsheet run p.ltp --lim", ["plain,--limit"]), ("callsheet run p.ltp --kind f", ["plain,feature"])],
)
def test_shell_completes_inputs_and_their_words(machine, plan, words, completed):
    done = machine.shell(
        prefix=f"import os; os.environ.update(_CALLSHEET_COMPLETE='bash_complete', COMP_WORDS={words!r}, "
        f"COMP_CWORD={str(len(words.split()) - 1)!r})"
    )
    assert done.stdout.split() == completed


@pytest.mark.parametrize("given", [("--var", "token=correct-horse"), ()], ids=["given", "default"])
def test_a_secret_input_is_never_shown_however_it_is_given(machine, given):
    default = "" if given else ' = "correct-horse"'
    text = f'# ltp: 2\nINPUT SECRET $token: str{default}\n@RESPOND ("it is ${{token}}")\n'
    done = machine("run", machine.write("plan.ltp", text), *given, "--run-id", "r")
    assert done.exit_code == 0, done.stderr
    views = (("show", "r"), ("show", "r", "--events"), ("why", "r", "answer"), ("lctl", "emit", "r"))
    shown = [machine(*view).stdout for view in views]
    assert "correct-horse" not in "".join([done.stdout, done.stderr, *shown])
    if given:  # a default is part of the plan
        assert b"correct-horse" not in machine.journal.read_bytes()


@pytest.mark.parametrize(("at", "waits"), [("1", ""), ("1", "WAIT (0.001)\n"), ("3", "WAIT (0.001)\n")])
def test_what_replaces_a_secret_input_is_never_shown_either(machine, at, waits):
    head = "# ltp: 2\nINPUT SECRET $token: str\nINPUT SECRET $pin: int\n"
    text = f'{head}{waits}{waits}@RESPOND ("${{token}} ${{pin}}")\n'
    given = ("--var", "token=correct-horse", "--var", "pin=98765432")
    assert machine("run", machine.write("plan.ltp", text), *given, "--run-id", "r").exit_code == 0
    edit = ("--at", at, "--set", 'token="battery-staple"', "--yes", "--run-id", "f")
    made = machine("fork", "r", *edit)
    assert made.exit_code == 0, made.stderr
    views = (("show", "f"), ("show", "f", "--events"), ("why", "f", "answer"))
    shown = "".join([made.stdout, made.stderr, *(machine(*view).stdout for view in views)])
    for secret in ("correct-horse", "battery-staple", "98765432"):
        assert secret not in shown
        assert secret.encode() not in machine.journal.read_bytes()


@pytest.mark.parametrize("given", [("--var", "pin=48213377"), ()], ids=["given", "default"])
def test_a_dry_run_takes_secret_inputs_as_unknown(machine, given):
    default = "" if given else " = 48213377"
    text = f'# ltp: 2\nINPUT SECRET $pin: int{default}\n?IF ($pin > 5) THEN @RESPOND ("it is ${{pin}}")\n'
    foreseen = ("dry-run", machine.write("plan.ltp", text), *given)
    told = machine(*foreseen)
    assert '"it is " <$pin>' in told.stdout, told.stderr
    assert "48213377" not in "".join([told.stdout, told.stderr, machine(*foreseen, "--json").stdout])


ECHO = """\
from callsheet import tool

@tool
def echo(pin: int) -> dict[str, object]:
    return {"got": [pin, 7], "said": f"no {pin}"}

@tool
def same(pin: int) -> int:
    return pin
"""
ECHOED = """\
# ltp: 2
INPUT SECRET $pin: int
S0: @SAME (pin=$pin) > $k
S1: @ECHO (pin=$pin) > $r
S2: @ASK_HUMAN ("go on?") > $a
@RESPOND ($r.got)
"""


def test_a_secret_number_is_neither_shown_nor_recorded_where_a_tool_gives_it_back(machine):
    plan, tools = machine.write("plan.ltp", ECHOED), ("--tools", machine.write("own_tools.py", ECHO))
    asked = machine("run", plan, *tools, "--var", "pin=48213377", "--run-id", "r", "--json")
    assert asked.exit_code == 4, asked.stderr
    views = (("show", "r", "--json"), ("at", "r", "--json"), ("why", "r", "r"))
    shown = [machine(*view).stdout for view in views]
    assert "48213377" not in "".join([asked.stdout, asked.stderr, *shown])
    assert b"48213377" not in machine.journal.read_bytes()
    machine("approve", "r", "S2.1", "--answer", "yes")
    done = machine("resume", "r", *tools, "--show-secrets", "--json")
    assert json.loads(done.stdout)["answer"] == [48213377, 7], done.stderr


def test_secret_inputs_that_no_search_finds_are_masked_where_variables_are_listed(machine):
    text = """# ltp: 2
INPUT SECRET $pin: str
INPUT SECRET $is_vip: bool
S1: @ASK_HUMAN ("go on?") > $a
@RESPOND ("done")
"""
    given = ("--var", "pin=a7", "--var", "is_vip=true", "--run-id", "r", "--json")
    asked = machine("run", machine.write("plan.ltp", text), *given)
    machine("approve", "r", "S1.1", "--answer", "yes")
    for listed in (asked, machine("resume", "r", "--json")):
        variables = json.loads(listed.stdout)["variables"]
        assert (variables["pin"], variables["is_vip"]) == ("[secret]", "[secret]")
