"""The lock file of a project: plans are checked without servers, which are judged by it when they start."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.security.conftest import LOOK, SEND

from callsheet import CallsheetError, Runtime
from callsheet.apps.cli.main import main
from callsheet.apps.cli.options import setup_from
from callsheet.apps.compiling import prompt_of
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.operations.editing import tools_of
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.toolbox import DeclaredTools, open_toolbox
from callsheet.ports.calls import CallContext

READS = 'S1: @LOOK (thing="x") > $a\nS2: @RESPOND ($a)'


def said(*line: str) -> Result:
    return CliRunner().invoke(main, line)


@pytest.fixture
def locked(user) -> Path:
    """The lock file of the user's project, just written."""
    assert said("lock").exit_code == 0
    return user.folder / "callsheet.lock"


def without_server(user, *, configured: bool) -> None:
    """Make the server impossible to start, or take its configuration away."""
    if not configured:
        (user.folder / "mcp.json").unlink()
        return
    servers = {"hall": {"command": str(user.folder / "no-such-program")}}
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


@pytest.mark.parametrize("configured", [True, False])
def test_plans_are_checked_and_proved_without_servers_as_with_them(user, locked, configured):
    plan = user.plan(READS)
    lines = (("check", plan), ("verify", plan, "--policy", "strict"), ("verify", plan, "--policy", "open"))
    with_server = [(r.exit_code, r.stdout) for r in (said(*line, "--json") for line in lines)]
    assert with_server[0][0] == 0
    without_server(user, configured=configured)
    if not configured:
        assert [(r.exit_code, r.stdout) for r in (said(*line, "--json") for line in lines)] == with_server
    for line in (("check",), ("verify", "--policy", "open"), ("dry-run",)):
        wrong = said(line[0], user.plan(READS.replace("LOOK", "LOOOK")), *line[1:])
        assert wrong.exit_code in (2, 3), line
        assert "no tool is called @LOOOK" in wrong.output
        assert "did you mean @LOOK?" in wrong.output


def test_run_starts_only_servers_that_it_calls_and_says_what_it_waits_for(user, locked, changeling):
    other = copy.deepcopy(changeling.command)
    away = {"command": str(user.folder / "no-such-program")}
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hall": other}}))
    data = json.loads(locked.read_text())
    data["servers"]["barn"] = copy.deepcopy(data["servers"]["hall"])
    for tool in data["servers"]["barn"]["tools"].values():
        del tool["pin"]
    data["servers"]["barn"] = {**data["servers"]["barn"], "place": "no-such-program", "tools": {}}
    locked.write_text(json.dumps(data))
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hall": other, "barn": away}}))
    ran = said("run", user.plan(READS))
    assert (ran.exit_code, ran.stdout) == (0, "ok\n")
    assert "waiting  for the MCP server 'hall' to start" in ran.stderr
    assert "barn" not in ran.stderr
    assert changeling.calls == ["look"]


def test_tool_that_differs_from_lock_is_not_called_and_people_see_how(user, locked, changeling):
    changeling.declare({**LOOK, "description": "Looks a thing up.\u200b"}, SEND)
    ran = said("run", user.plan(READS + " ON_FAIL TERMINATE"))
    assert changeling.calls == []
    assert "is declared differently than in the lock file (description)" in ran.stderr
    assert '"Looks a thing up." → "Looks a thing up.<U+200B>"' in ran.stderr
    compared = said("lock", "--check", "--refresh")
    assert (compared.exit_code, "~ look  changed" in compared.stdout) == (1, True)
    before = locked.read_text()
    assert said("lock").exit_code == 0
    assert locked.read_text() == before, "only a refresh takes a change in"
    assert "Looks a thing up.<U+200B>" in said("lock", "--refresh", "hall").stdout
    assert said("run", user.plan(READS)).stdout == "ok\n"


def test_server_that_reports_another_name_is_not_called(user, locked, changeling):
    changeling.declare(LOOK, SEND, name="impostor")
    assert "reports another name" in said("run", user.plan(READS)).output
    assert changeling.calls == []


def test_accepted_hints_are_effects_until_they_are_rejected(user, changeling):
    hinted = {**SEND, "annotations": {"idempotentHint": True}}
    changeling.declare(LOOK, hinted, {**SEND, "name": "drop"})
    first = said("run", user.plan(READS))
    hint = "of 3, 1 says that it only reads and 1 that it may be repeated"
    assert hint in first.stderr
    assert "`callsheet lock --accept hall`" in first.stderr
    assert said("lock").exit_code == 0

    def effects() -> dict[str, str]:
        return {
            tool["executor"]: tool["effect"] for tool in json.loads(said("tools", "--json").stdout)["tools"]
        }

    assert effects()["look"] == "unsafe"
    accepted = said("lock", "--accept", "hall")
    assert "hall/look: unsafe → read (accepted)" in accepted.stdout
    assert {name: effects()[name] for name in ("look", "send", "drop")} == {
        "look": "read",
        "send": "idempotent",
        "drop": "unsafe",
    }
    assert "does not say which effect" in said("lock", "--accept", "hall/drop").output
    without_server(user, configured=True)
    assert (effects()["look"], effects()["send"]) == ("unsafe", "unsafe"), "of another command nobody has"
    assert "hall/look: read → unsafe" in said("lock", "--check").stdout
    user.configure()
    assert (effects()["look"], effects()["send"]) == ("read", "idempotent")
    said("lock", "--reject", "hall/look")
    assert (effects()["look"], effects()["send"]) == ("unsafe", "idempotent")
    user.configure(effects={"send": "read"})
    stale = said("check", user.plan(READS.replace("LOOK", "SEND")))
    assert "TOL027" in stale.output
    assert effects()["send"] == "read", "the configuration precedes the lock file"
    assert said("lock", "--check").exit_code == 1
    assert said("lock").exit_code == 0
    assert "TOL027" not in said("check", user.plan(READS.replace("LOOK", "SEND"))).output


@pytest.mark.parametrize(
    "changed",
    [
        {key: value for key, value in LOOK.items() if key != "annotations"},
        LOOK | {"description": "Looks, and tells the neighbours."},
        LOOK | {"inputSchema": {"type": "object", "properties": {"where": {"type": "string"}}}},
    ],
    ids=["hint", "description", "arguments"],
)
def test_effect_is_accepted_until_the_declaration_changes(user, changeling, changed):
    assert said("lock", "--accept", "hall").exit_code == 0
    changeling.declare(dict(reversed(LOOK.items())), SEND)
    assert "→" not in said("lock", "--refresh").stdout, "another order of keys is no change"
    changeling.declare(changed, SEND)
    assert "hall/look: read → unsafe" in said("lock", "--refresh").stdout


def test_lock_of_another_author_does_not_count_for_servers_of_the_user(
    user, locked, tmp_path_factory, monkeypatch
):
    own = tmp_path_factory.mktemp("config") / "callsheet"
    own.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    shutil.move(user.folder / "mcp.json", own / "mcp.json")
    assert said("trust", "project").exit_code == 0
    assert "TOL028" not in said("check", user.plan(READS)).output
    locked.write_text(locked.read_text() + "\n")
    untrusted = said("check", user.plan(READS))
    assert "TOL028" in untrusted.output
    assert said("trust", "project").exit_code == 0
    assert "TOL028" not in said("check", user.plan(READS)).output
    assert said("trust", "project", "--revoke").exit_code == 0
    assert "TOL028" in said("run", user.plan(READS)).output


def test_lock_of_another_author_is_not_trusted_by_writing_it(user, locked, tmp_path_factory, monkeypatch):
    own = tmp_path_factory.mktemp("config") / "callsheet"
    own.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    shutil.move(user.folder / "mcp.json", own / "mcp.json")
    assert said("lock", "--accept", "hall").exit_code == 0
    assert said("trust", "project", "--revoke").exit_code == 0
    for line in (("lock",), ("lock", "--reject", "hall"), ("lock", "--accept", "hall")):
        assert "TOL028" in said(*line).stderr, line
        assert "TOL028" in said("check", user.plan(READS)).output, line
    assert "look: read (accepted)" in said("trust", "project").stdout, "people see what they trust"
    assert "TOL028" not in said("lock", "--reject", "hall").output
    assert "TOL028" not in said("check", user.plan(READS)).output
    said("trust", "project", "--revoke")
    assert said("lock", "--new").exit_code == 0
    assert "TOL028" not in said("check", user.plan(READS)).output


FORGERIES = {
    "effect": ('"effect": "unsafe",\n     "source": "nobody"', '"effect": "read",\n     "source": "nobody"'),
    "hint": ('"effect": "unsafe",\n     "source": "nobody"', '"effect": "pure",\n     "source": "accepted"'),
    "pin": ("Looks a thing up.", "Looks another thing up."),
    "key": ('"schema": 1', '"schema": 1, "trusted": true'),
    "conflict": ('"schema": 1', "<<<<<<< ours"),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_lock_that_contradicts_itself_is_not_used(user, locked, forgery):
    before = locked.read_text()
    changed = before.replace(*forgery)
    assert changed != before
    locked.write_text(changed)
    refused = said("run", user.plan(READS))
    assert (refused.exit_code, "CFG115" in refused.output) == (2, True)
    assert said("lock", "--new").exit_code == 0
    assert locked.read_text() == before


def test_lock_has_no_secrets_of_the_configuration(user, changeling, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-token-of-somebody")
    server = {"command": sys.executable, "args": [*changeling.command["args"], "--key=${TOKEN}"]}
    server["env"] = {"KEY": "${TOKEN}"}
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hall": server}}))
    assert said("lock").exit_code == 0
    text = (user.folder / "callsheet.lock").read_text()
    assert "s3cr3t" not in text
    assert str(user.folder) not in text
    monkeypatch.delenv("TOKEN")
    assert said("check", user.plan(READS)).exit_code == 0
    refused = said("run", user.plan(READS))
    assert (refused.exit_code, "TOL029" in refused.output) == (2, True)


def test_a_locked_server_whose_entry_is_wrong_says_what_is_wrong(user, locked):
    file = user.folder / "mcp.json"
    servers = json.loads(file.read_text())["mcpServers"]
    wrong = {name: {**server, "callsheet": {"effekts": {}}} for name, server in servers.items()}
    file.write_text(json.dumps({"mcpServers": wrong}))
    refused = said("run", user.plan(READS))
    assert "there is no key 'effekts' here" in refused.output
    assert "did you mean 'effects'?" in refused.output


def test_lock_is_not_emptied_where_no_server_is_configured(user, locked):
    before = locked.read_text()
    without_server(user, configured=False)
    refused = said("lock")
    assert (refused.exit_code, "would lose all that it has" in refused.output) == (2, True)
    assert locked.read_text() == before


def test_server_that_cannot_be_started_is_said_to_be_so_and_begins_no_lock_file(user):
    without_server(user, configured=True)
    for line in (("lock",), ("lock", "--accept", "hall"), ("tools", "look")):
        refused = said(*line)
        assert refused.exit_code, line
        assert "TOL010" in refused.output, line
    assert not (user.folder / "callsheet.lock").exists()


def test_tools_of_a_locked_server_still_need_approval_where_only_approved_ones_count(user, locked):
    assert "TOL021" in said("run", user.plan(READS), "--pinned").output
    assert said("trust", "approve", "hall", "--yes").exit_code == 0
    assert said("run", user.plan(READS), "--pinned").stdout == "ok\n"


def test_what_the_lock_has_is_said_to_be_called_although_it_is_revoked(user, locked, changeling):
    plan = user.plan(READS)
    assert said("run", plan).exit_code == 0
    user("trust", "approve", "hall", "--yes")
    assert "callsheet.lock has hall/look, hall/send" in said("trust", "revoke", "hall").stderr
    assert said("run", plan).exit_code == 0
    assert said("run", plan, "--pinned").exit_code == 3
    locked.unlink()
    user("trust", "approve", "hall", "--yes")
    assert "callsheet.lock" not in said("trust", "revoke", "hall").stderr


def test_resumed_run_uses_the_lock_that_it_was_started_with(user, locked, changeling):
    said("run", user.plan('S1: @ASK_HUMAN ("Go?") > $y\nS2: @LOOK (thing="x") > $a\nS3: @RESPOND ($a)'))
    run = json.loads(said("runs", "--json").stdout)[0]["run_id"]
    assert said("approve", run, "--answer", "yes").exit_code == 0
    assert said("resume", run).exit_code == 0
    assert changeling.calls == ["look"]


async def test_editor_compiler_and_servers_know_locked_tools_without_opening_the_server(user, locked):
    without_server(user, configured=True)
    setup = setup_from()
    tools = tools_of(DeclaredTools(setup))
    assert (tools.registry.require("LOOK").spec.origin, tools.not_queried) == ("mcp:hall", None)
    prompt = await prompt_of("look a thing up", "", setup)
    assert "async def look(" in json.dumps(prompt).lower()
    plan = plan_text(READS).require()
    async with SharedTools(setup) as shared:
        box = await shared.for_plan(plan)
        assert box.registry.require("LOOK").spec.refusal is None
        assert [(server.name, server.is_open) for server in box.servers] == [("hall", False)]
        assert (await shared.for_plan(None)).registry.require("SEND").spec.refusal is None
    async with SharedTools(setup_from(pinned=True)) as shared:
        box = await shared.for_plan(plan)
        refusal = box.registry.require("LOOK").spec.refusal
        assert refusal is not None
        assert refusal.code == "TOL021"


async def test_concurrent_calls_start_their_server_once(user, locked, changeling):
    setup = setup_from()
    async with open_toolbox(setup, plan_text(READS).require()) as toolbox:
        look = toolbox.registry.require("LOOK")
        context = CallContext("run", "S1.0.1")
        answers = await asyncio.gather(*(look.handler({"thing": "x"}, context) for _ in range(4)))
    assert answers == ["ok"] * 4
    assert changeling.calls == ["look"] * 4


def test_server_outside_the_lock_does_not_take_a_locked_name(user, locked, changeling):
    servers = {"hall": changeling.command, "barn": changeling.command}
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    both = said(
        "run", user.plan('S1: @LOOK (thing="x") > $a\nS2: @BARN__SEND () > $b\nS3: @RESPOND ($a, $b)')
    )
    assert (both.exit_code, both.stdout) == (0, "ok ok\n"), both.stderr
    assert changeling.calls == ["look", "send"]


async def test_runtime_with_a_lock_starts_no_server_before_its_tool_is_called(user, locked, changeling):
    servers = {"hall": changeling.command, "barn": {"command": str(user.folder / "no-such-program")}}
    data = json.loads((user.folder / "callsheet.lock").read_text())
    data["servers"]["barn"] = {**data["servers"]["hall"], "tools": {}}
    (user.folder / "callsheet.lock").write_text(json.dumps(data))
    async with Runtime(mcp=servers, lock="callsheet.lock") as runtime:
        assert (await runtime.run(READS)).response == "ok"
        changeling.declare({**LOOK, "title": "Look"}, SEND)
    assert changeling.calls == ["look"]
    async with Runtime(mcp=servers, lock="callsheet.lock") as runtime:
        result = await runtime.run(READS)
        assert "is declared differently" in result.response
    assert changeling.calls == ["look"]
    with pytest.raises(CallsheetError, match="does not exist"):
        Runtime(mcp=servers, lock="other.lock")
