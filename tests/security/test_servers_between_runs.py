"""Tools that come from another server, or are others, once a run is resumed or planned anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.security.conftest import LOOK, SEND, Changeling

from callsheet import CallsheetError, RunResult, RunStatus, Runtime
from callsheet.ports.mcp import McpServerConfig, StdioServer, declarations
from callsheet.ports.mcp.declarations import orderless_pin_of, pin_of

OTHER_LOOK = {**LOOK, "description": "Looks a thing up, and tells everybody."}
QUIET = 'egress = false\ndestructive = false\nreturns = "T/pub"\n'
WAITS = 'S1: @ASK_HUMAN ("go on?") > $yes\n'
LOOKS = f'{WAITS}S2: @LOOK (thing="x") > $a\nS3: @RESPOND ($a)'


class Servers:
    """Two servers, `fs` and `other`, a policy on their tools, and one run that stops and is resumed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, Changeling] = {}
        for name in ("fs", "other"):
            (folder / name).mkdir()
            self.made[name] = Changeling(folder / name)
        self.fs, self.other = self.made.values()
        self.fs.declare(LOOK)
        self.other.declare(SEND)

    def policy(self, text: str, name: str = "policy.toml") -> Path:
        path = self.folder / name
        path.write_text(f"schema = 1\n{text}")
        return path

    def runtime(self, policy: Path | None, **more: Any) -> Runtime:
        configs = [
            McpServerConfig(name, StdioServer(sys.executable, (made.script, str(made.path))), timeout=60)
            for name, made in self.made.items()
        ]
        return Runtime(
            mcp=configs, data=self.folder, journal=self.folder / "journal.db", policy=policy, **more
        )

    async def stop(self, plan: str, policy: Path | None) -> None:
        """Start a run that waits for a person."""
        async with self.runtime(policy) as runtime:
            assert (await runtime.run(plan, run_id="run")).status is RunStatus.WAITING

    async def go_on(self, under: Path | None, compiler: Any = None, **terms: Any) -> RunResult:
        async with self.runtime(under, on_approval=lambda _: True, compiler=compiler) as runtime:
            return await runtime.resume("run", **terms)


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    return Servers(tmp_path)


@pytest.mark.parametrize("is_under_a_policy", [True, False])
async def test_same_declaration_on_other_server_is_other_tool(servers, is_under_a_policy):
    policy = servers.policy(f'[tools."mcp:fs/look"]\n{QUIET}') if is_under_a_policy else None
    await servers.stop(LOOKS, policy)
    servers.fs.declare(SEND)
    servers.other.declare(LOOK)
    with pytest.raises(CallsheetError, match="JRN021: @LOOK was a tool of the MCP server 'fs'"):
        await servers.go_on(policy)
    assert servers.other.calls == []
    assert (await servers.go_on(policy, accept_changed_tools=True)).response == "ok"


@pytest.mark.parametrize("is_under_a_policy", [True, False])
async def test_server_does_not_replace_missing_python_tool(servers, is_under_a_policy):
    def look(thing: str) -> str:
        return f"{thing} seen here"

    policy = servers.policy(f"[tools.LOOK]\n{QUIET}") if is_under_a_policy else None
    async with servers.runtime(policy, tools=[look]) as runtime:
        assert (await runtime.run(LOOKS, run_id="run")).status is RunStatus.WAITING
    servers.other.declare(LOOK)
    servers.fs.declare(SEND)
    with pytest.raises(CallsheetError, match=r"JRN021: .*@LOOK"):
        await servers.go_on(policy)
    assert servers.other.calls == []
    async with servers.runtime(policy, on_approval=lambda _: True, tools=[look]) as runtime:
        assert (await runtime.resume("run")).response == "x seen here"


async def test_resumed_run_uses_its_original_server(servers):
    policy = servers.policy(f'[tools."mcp:fs/look"]\n{QUIET}')
    await servers.stop(LOOKS, policy)
    servers.fs.declare(SEND, LOOK)
    assert (await servers.go_on(policy)).response == "ok"
    assert servers.fs.calls == ["look"]


async def test_accepting_changed_tools_does_not_change_policy_pins(servers):
    pinned = f'[tools."mcp:fs/look"]\n{QUIET}pin = "{pin_of(LOOK)}"\n'
    policy = servers.policy(pinned)
    await servers.stop(LOOKS, policy)
    servers.fs.declare(OTHER_LOOK)
    with pytest.raises(CallsheetError, match="POL007: fs/look has changed since the policy was written"):
        await servers.go_on(policy, accept_changed_tools=True)
    assert servers.fs.calls == []
    renewed = servers.policy(pinned.replace(pin_of(LOOK), pin_of(OTHER_LOOK)), "renewed.toml")
    terms = {"accept_changed_tools": True, "policy": renewed, "accept_changed_policy": True}
    assert (await servers.go_on(policy, **terms)).response == "ok"


TEXT = {"type": "string"}
TRANSFER = {"name": "transfer", "inputSchema": {"type": "object", "properties": {"src": TEXT, "dst": TEXT}}}
SWAPPED = {"name": "transfer", "inputSchema": {"type": "object", "properties": {"dst": TEXT, "src": TEXT}}}
PAYS = f'{WAITS}S2: @TRANSFER ("alice", "bob") > $a\nS3: @RESPOND ($a)'


@pytest.mark.parametrize("is_accepted", [False, True])
async def test_resumed_run_pays_whom_it_meant(servers, is_accepted):
    servers.fs.declare(TRANSFER)
    await servers.stop(PAYS, None)
    servers.fs.declare(SWAPPED)
    if not is_accepted:
        with pytest.raises(CallsheetError, match="JRN021: the declaration of @TRANSFER has changed"):
            await servers.go_on(None)
        return
    assert (await servers.go_on(None, accept_changed_tools=True)).response == "ok"
    assert servers.fs.arguments == [{"src": "alice", "dst": "bob"}]


@pytest.mark.parametrize("is_swapped", [False, True])
async def test_run_of_earlier_version_goes_on_with_its_order_of_arguments(servers, monkeypatch, is_swapped):
    servers.fs.declare(TRANSFER)
    policy = servers.policy(f'[tools."mcp:fs/transfer"]\n{QUIET}pin = "{orderless_pin_of(TRANSFER)}"\n')
    with monkeypatch.context() as earlier:
        earlier.setattr(declarations, "pin_of", orderless_pin_of)
        await servers.stop(PAYS, policy)
    if not is_swapped:
        assert (await servers.go_on(policy)).response == "ok"
        return
    servers.fs.declare(SWAPPED)
    with pytest.raises(CallsheetError, match="JRN021"):
        await servers.go_on(policy)
    with pytest.raises(CallsheetError, match="POL007: the policy's pin of fs/transfer says nothing"):
        await servers.go_on(policy, accept_changed_tools=True)


async def test_run_with_renewed_policy_uses_pins_of_new_policy(servers):
    pinned = f'[tools."mcp:fs/look"]\n{QUIET}pin = "{pin_of(LOOK)}"\n'
    plan = f'{WAITS}S2: @ASK_HUMAN ("and now?") > $more\nS3: @LOOK (thing="x") > $a\nS4: @RESPOND ($a)'
    policy = servers.policy(pinned)
    await servers.stop(plan, policy)
    servers.fs.declare(OTHER_LOOK)
    renewed = servers.policy(pinned.replace(pin_of(LOOK), pin_of(OTHER_LOOK)), "renewed.toml")
    terms = {"accept_changed_tools": True, "policy": renewed, "accept_changed_policy": True}
    async with servers.runtime(policy) as runtime:
        assert (await runtime.resume("run", **terms)).status is RunStatus.WAITING
    assert (await servers.go_on(policy, accept_changed_tools=True)).response == "ok"


async def test_new_plan_of_resumed_run_finds_tools_of_policy(servers):
    policy = servers.policy(f'[tools."mcp:fs/look"]\n{QUIET}[dynamic]\nreplan = {{ max = 1 }}\n')
    plan = f'{WAITS}S2: RE-PLAN ("look")'

    def again(_: object) -> str:
        return 'S1: @LOOK (thing="x") > $a\nS2: @RESPOND ($a)'

    await servers.stop(plan, policy)
    servers.fs.declare(SEND)
    servers.other.declare(LOOK)
    with pytest.raises(CallsheetError, match="JRN021: @LOOK"):
        await servers.go_on(policy, again)
    servers.fs.declare(LOOK)
    servers.other.declare(SEND)
    assert (await servers.go_on(policy, again)).response == "ok"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'[defaults]\ndeny = ["mcp:other/send"]\n[tools."@SEND"]\n{QUIET}', "POL102"),
        (
            f'[tools."@SEND"]\n{QUIET}[[rule]]\ntool = "mcp:other/send"\nwhen = "true"\nthen = "refuse"\n',
            "POL117",
        ),
        (f'[tools."mcp:other/send"]\n{QUIET}', ""),
    ],
)
async def test_new_plan_is_subject_to_policy_of_server_tools(servers, text, says):
    policy = servers.policy(f"{text}[dynamic]\nreplan = {{ max = 1 }}\n")

    def again(_: object) -> str:
        return "S1: @SEND () > $a\nS2: @RESPOND ($a)"

    async with servers.runtime(policy, compiler=again) as runtime:
        result = await runtime.run('S1: RE-PLAN ("send it")')
    assert result.ok is (not says)
    assert says in result.response
    assert servers.other.calls == ([] if says else ["send"])
