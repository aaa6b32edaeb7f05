"""`--json` of every command that returns a result, as `docs/cli.md` documents it."""

from __future__ import annotations

import json

import click
from scripts.reference.results import results_page

from callsheet.apps.cli.main import main
from callsheet.apps.operations.printed import PRINTED
from callsheet.apps.operations.runs import STATUSES
from callsheet.apps.operations.schema import schema_of
from callsheet.machine import Outcome
from callsheet.store.writer import RunStatus
from json_forms import holds

NO_RESULT = {"chat", "completion", "dap", "demo", "gate install", "gate said", "lsp", "mcp"}
NO_RESULT |= {"plan export", "plan review", "schedule run", "schema", "skill export"}
"""They print a text for another program as it is, or talk with somebody."""
LINES = {"tail", "top", "playback"}


def _commands(group: click.Group, before: str = "") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += _commands(command, f"{before}{name} ")
        else:
            found.append((f"{before}{name}", command))
    return found


def test_every_command_with_result_has_json_option():
    without = {
        name for name, command in _commands(main) if all("--json" not in p.opts for p in command.params)
    }

    assert without == NO_RESULT


def test_labels_commands_return_json(machine):
    machine.write("a.txt", "a")

    assert machine.json("labels", "set", "a.txt", "U/priv") == {
        "place": "a.txt",
        "before": None,
        "label": "U/priv",
    }
    assert machine.json("labels", "forget", "a.txt")["forgotten"] is True
    assert machine.json("labels", "forget", "a.txt")["forgotten"] is False


def test_written_policy_path_is_in_json(machine):
    assert (
        machine.json("policy", "show", "workspace")["text"] == machine("policy", "show", "workspace").stdout
    )
    written = machine.json("policy", "init", "-o", "ours.toml")

    assert (written["file"], written["base"], written["diagnostics"]) == ("ours.toml", "workspace", [])
    assert (machine.folder / "ours.toml").exists()
    assert machine.json("policy", "init", "-o", "-")["text"].startswith("# What plans may do here")


def test_models_are_in_json(machine, monkeypatch):
    folder = machine.folder / "models"
    monkeypatch.setenv("CALLSHEET_MODELS", str(folder))

    assert machine.json("models", "path") == {"path": str(folder)}
    assert machine.json("models", "remove", "qwen2.5-coder-0.5b") == {
        "removed": [],
        "missing": ["qwen2.5-coder-0.5b"],
    }


def test_commands_print_results_of_the_reference(machine):
    plan = machine.plan('S1: @CALC ("1 + 1") > $a', "S2: @RESPOND ($a)")
    lines = {
        "run": ("run", plan),
        "show": ("show", "last"),
        "runs": ("runs",),
        "inbox": ("inbox",),
        "decide": ("decide", "last"),
        "at": ("at", "last", "1"),
        "why": ("why", "last", "a"),
        "tools": ("tools",),
        "explain": ("explain", "CHK001"),
        "plan list": ("plan", "list"),
        "check": ("check", plan),
        "fmt": ("fmt", "--check", plan),
        "verify": ("verify", plan, "--policy", "strict"),
        "explain-policy": ("explain-policy", plan, "--policy", "strict"),
        "test": ("test", "a.test.toml", "--cover"),
        "lock": ("lock", "--check"),
        "plan diff": ("plan", "diff", plan, plan),
        "doctor": ("doctor",),
        "new": ("new", "b.ltp"),
        "record": ("record", "last", "-o", "c.test.toml"),
        "graph": ("graph", plan),
        "explain-schedule": ("explain-schedule", plan),
        "search": ("search", "last", "2"),
        "labels set": ("labels", "set", "a.txt", "U/priv"),
        "labels list": ("labels", "list"),
        "labels forget": ("labels", "forget", "a.txt"),
        "policy check": ("policy", "check", "strict"),
        "policy init": ("policy", "init", "-o", "p.toml"),
        "policy propose": ("policy", "propose", "--from", plan, "--policy", "strict"),
        "policy explain": ("policy", "explain", "p.toml"),
        "policy show": ("policy", "show", "strict"),
        "trust project": ("trust", "project"),
        "stubs": ("stubs", "-o", "stubs"),
        "models list": ("models", "list"),
        "models path": ("models", "path"),
        "runs heads": ("runs", "heads"),
        "plan save": ("plan", "save", plan, "--as", "one"),
        "save": ("save", plan, "--as", "two"),
        "plan run": ("plan", "run", "one"),
        "call": ("call", "calc", "expression=1 + 1"),
        "rerun": ("rerun", "other", "--from", "S2", "--yes"),
        "fork": ("fork", "other", "--at", "2", "--yes"),
        "diff": ("diff", "last", "other"),
        "runs diff": ("runs", "diff", "last", "other"),
        "blame": ("blame", "bad"),
        "debug": ("debug", "bad"),
        "plan rename": ("plan", "rename", "one", "three"),
        "plan delete": ("plan", "delete", "three"),
        "people add": ("people", "add", "people.toml", "ada", "--role", "approver"),
        "people list": ("people", "list", "people.toml"),
        "approve": ("approve", "asks"),
        "upgrade": ("upgrade", "w.ltp"),
        "cancel": ("cancel", "waiting"),
        "runs verify": ("runs", "verify"),
        "runs export": ("runs", "export", "last", "-o", "runs.jsonl"),
        "runs backup": ("runs", "backup", "-o", "all.db"),
        "runs cancel": ("runs", "cancel", "--tag", "a=b"),
        "runs rerun": ("runs", "rerun", "--tag", "a=b"),
        "runs delete": ("runs", "delete", "--tag", "a=b"),
        "logout": ("logout", "nowhere"),
        "lctl rules": ("lctl", "rules"),
        "runs restore": ("runs", "restore", "all.db", "--journal", "again.db"),
        "runs import": ("runs", "import", "runs.jsonl", "--journal", "copy.db"),
        "runs salvage": ("runs", "salvage", "-o", "saved.db"),
        "runs prune": ("runs", "prune", "--dry-run"),
        "report": ("report", "last", "-o", "report.html"),
        "tail": ("tail", "other"),
        "playback": ("playback", "bad", "--speed", "1000"),
        "top": ("top", "bad"),
        "trace export": ("trace", "export", "last", "--prov", "prov.json"),
        "trust list": ("trust", "list"),
        "login": ("login",),
        "schedule": ("schedule",),
        "webhooks": ("webhooks",),
        "plan import": ("plan", "import", "two.jsonl"),
        "lctl emit": ("lctl", "emit", "other", "-o", "one.yaml"),
        "lctl show": ("lctl", "show", "one.yaml"),
        "lctl chain": ("lctl", "chain", "one.yaml"),
        "lctl graph": ("lctl", "graph", "one.yaml"),
        "lctl diff": ("lctl", "diff", "one.yaml", "one.yaml"),
        "lctl ack": ("lctl", "ack", "one.yaml"),
    }
    machine.write("w.ltp", 'S1: @ASK_HUMAN ("go?") > $a\nS2: @RESPOND ($a)\n')
    machine.write(
        "bad.ltp", 'S1: @READ_FILE (path="nothing") > $a ON_FAIL TERMINATE ("no")\nS2: @RESPOND ($a)\n'
    )
    for name, file in (("waiting", "w.ltp"), ("asks", "w.ltp"), ("bad", "bad.ltp"), ("other", plan)):
        machine("run", file, "--run-id", name)
    machine.write(
        "callsheet.toml",
        f"""[schedules.nightly]
plan = "{plan}"
cron = "0 3 * * *"
timezone = "UTC"
[webhooks.opened]
plan = "{plan}"
secret = "env:NO_SECRET"
""",
    )
    machine("trust", "project")
    machine.write("a.test.toml", f'plan = "{plan}"\n[[cases]]\nname = "it adds"\nanswer = "3"\n')
    for name, line in lines.items():
        if name == "plan import":
            machine("plan", "export", "two", "-o", "two.jsonl")
        printed = machine(*line, "--json").stdout
        for value in map(json.loads, printed.splitlines() if name in LINES else [printed]):
            holds(value, schema_of(PRINTED[name]))
        schema = json.loads(machine("schema", *name.split()).stdout)
        assert (schema["title"], "fields are added" in schema["$comment"]) == (
            f"callsheet {name} --json",
            True,
        )
    whole = machine.json("dry-run", plan)
    assert whole.keys() >= set(schema_of(PRINTED["dry-run"])["required"])
    assert "## OutcomeResult" in results_page()


def test_every_command_with_json_option_has_schema():
    commands = {name for name, command in _commands(main)}
    groups = {"runs", "schedule", "webhooks"}  # they list without a further word

    assert PRINTED.keys() - groups == commands - NO_RESULT


def test_statuses_are_all_that_journals_have():
    assert {*map(str, RunStatus), *map(str, Outcome), "interrupted"} == {*STATUSES}


def test_layout_of_a_plan_is_printed(machine):
    plan = machine.plan('S1: @CALC ("1 + 1") > $a', "S2: @RESPOND ($a)")

    layout = json.loads(machine("graph", plan, "--format", "graph").stdout)

    assert layout["steps"]
    assert machine.json("graph", plan, "--format", "graph")["graph"] == layout
