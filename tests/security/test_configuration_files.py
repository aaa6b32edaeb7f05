"""No plan writes files that configure the next run: policy, tools, servers, configuration."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.security.world import POLICY, World, refusal

from callsheet import PolicyRefused, Runtime
from callsheet.api.policies import load_policy
from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.machine.program import Loop
from callsheet.policy.canon import differences, policy_from_json, policy_hash, policy_to_json
from callsheet.policy.model import AgentRule, Policy, ToolRule

OURS = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub"))
OUTSIDE = replace(OURS, egress=True)
FACTS = {
    "FS__WRITE": ToolFacts(Effect.IDEMPOTENT, ("path", "content")),
    "FS__MOVE": ToolFacts(Effect.IDEMPOTENT, ("source", "destination")),
    "FS__COPY": ToolFacts(Effect.IDEMPOTENT, ("source", "destination")),
    "PUT": ToolFacts(Effect.IDEMPOTENT, ("path", "content")),
    "PUSH": ToolFacts(Effect.IDEMPOTENT, ("owner", "repo", "path", "content")),
}
MINE = "schema = 1\n"


@pytest.fixture
def held(world: World) -> World:
    """A world whose policy lies in the workspace, with tools that write to any path."""
    folder = world.folder
    world.write("ours.toml", MINE)
    world.write("a/ours.toml", "schema = 1\n[defaults]\nunknown_tool = 'ask'\n")
    world.write("notes.md", "mine")

    async def write(args: dict[str, Any], context: Any) -> str:
        (folder / args["path"]).write_text(args["content"])
        return "written"

    def moving(how: Callable[..., Any]) -> Any:
        async def move(args: dict[str, Any], context: Any) -> str:
            how(folder / args["source"], folder / args["destination"])
            return "moved"

        return move

    world.tools |= {"FS__WRITE": write, "PUT": write, "PUSH": write}
    world.tools |= {"FS__MOVE": moving(shutil.move), "FS__COPY": moving(shutil.copy)}
    tools = dict.fromkeys(FACTS, OURS) | {"PUT": OUTSIDE, "PUSH": OUTSIDE}
    files = (str(folder / "ours.toml"),)
    world.policy = replace(POLICY, tools={**POLICY.tools, **tools}, files=files)
    return world


@pytest.mark.parametrize(
    "call",
    [
        '@WRITE_FILE (path="ours.toml", content="x")',
        '@WRITE_FILE (path="a/../Ours.TOML", content="x")',
        '@EDIT_FILE (path="ours.toml", old="1", new="2")',
        '@FS__WRITE (path="./ours.toml", content="x")',
        '@FS__WRITE (path="{folder}/ours.toml", content="x")',
        '@FS__WRITE (path="file://{folder}/ours.toml", content="x")',
        '@FS__WRITE (path="{folder}/a/%2e%2e/ours.toml", content="x")',
        '@FS__WRITE (path="link.md", content="x")',
        '@FS__WRITE (path="there/ours.toml", content="x")',
        '@FS__COPY (source="a/ours.toml", destination="ours.toml")',
        '@FS__COPY (source="a/ours.toml", destination=".")',
        '@FS__MOVE (source="a/ours.toml", destination="{folder}")',
        '@FS__MOVE (source="ours.toml", destination="a/old.toml")',
        '@PUT (path="ours.toml", content="x")',
    ],
)
async def test_call_writing_policy_file_ends_run(held: World, call: str) -> None:
    (held.folder / "link.md").symlink_to(held.folder / "ours.toml")
    (held.folder / "there").symlink_to(held.folder, target_is_directory=True)
    text = f'S1: {call.format(folder=held.folder)} ON_FAIL GOTO S2\nS2: @RESPOND ("done")'
    facts = FACTS | {"EDIT_FILE": ToolFacts(Effect.IDEMPOTENT, ("path", "old", "new"))}
    found = refusal(await held.run(text, facts=facts))
    assert (found.step, found.rule) == ("S1", "path")
    assert (held.folder / "ours.toml").read_text() == MINE
    again = refusal(await held.resume())
    assert again == found, "the journal has the rule"


async def test_path_known_only_at_run_time_is_refused_then(held: World) -> None:
    text = 'S1: @NOTE ("ours.toml") > $n\nS2: @WRITE_FILE (path="$n", content="x")\nS3: @RESPOND ("done")'
    found = refusal(await held.run(text, facts=FACTS))
    assert (found.step, found.rule) == ("S2", "path")
    assert (held.folder / "ours.toml").read_text() == MINE


@pytest.mark.parametrize(
    "call",
    [
        '@READ_FILE (path="ours.toml")',
        '@WRITE_FILE (path="ours.toml.md", content="x")',
        '@WRITE_FILE (path="a/ours.toml", content="x")',
        '@FS__WRITE (path="notes.md", content="see ours.toml")',
        '@FS__COPY (source="ours.toml", destination="a/copy.toml")',
        '@FS__MOVE (source="notes.md", destination="a")',
        '@PUSH (owner="us", repo="r", path="a/x.toml", content="x")',
    ],
)
async def test_other_files_are_writable(held: World, call: str) -> None:
    outcome = await held.run(f'S1: {call} > $r\nS2: @RESPOND ("done")', facts=FACTS)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE


async def test_repository_path_is_not_workspace_path(held: World) -> None:
    pushed: list[Any] = []

    async def push(args: dict[str, Any], context: Any) -> str:
        pushed.append(args)
        return "pushed"

    held.tools["PUSH"] = push
    text = 'S1: @PUSH (owner="us", repo="r", path="ours.toml", content="x") > $r\nS2: @RESPOND ("done")'
    outcome = await held.run(text, facts=FACTS)
    assert outcome.result is not None
    assert (outcome.result.status, len(pushed)) == (Status.DONE, 1)


# ---------------------------------------------------------------- who names the files


def test_policy_names_its_file_and_extended_files(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('schema = 1\nextends = "workspace"\n')
    (tmp_path / "ours.toml").write_text('schema = 1\nextends = "base.toml"\n')
    files = load_policy(tmp_path / "ours.toml").files
    assert files == (str(tmp_path / "base.toml"), str(tmp_path / "ours.toml"))
    assert load_policy("workspace").files == ()


def test_protected_files_are_journaled_and_do_not_change_policy_hash() -> None:
    policy = Policy().with_files(["/w/ours.toml"])
    assert policy_from_json(policy_to_json(policy)) == policy
    assert policy_hash(policy) != policy_hash(Policy())
    assert differences(Policy(), policy) == ()


async def test_agent_writing_protected_file_ends_run(held: World) -> None:
    held.policy = replace(held.policy, agent=AgentRule(tools=("WRITE_FILE",)))
    asked = {"tool": "write_file", "args": {"path": "ours.toml", "content": "schema = 1"}}

    async def model(command: Any, context: Any) -> Any:
        return asked

    held.more["turn"] = model
    facts = {"AGENT_SOLVE": ToolFacts(loop=Loop(("WRITE_FILE",)))}
    plan = 'S1: @AGENT_SOLVE ("go", tools=["write_file"]) > $a ON_FAIL GOTO S2\nS2: @RESPOND ("done")'
    assert refusal(await held.run(plan, facts=facts)).rule == "path"
    assert (held.folder / "ours.toml").read_text() == MINE


WRITES = [
    ("policy", '@WRITE_FILE (path="ours.toml", content="schema = 1")'),
    ("tools", '@WRITE_FILE ("tools.py", "import os")'),
    ("servers", '@EDIT_FILE (path="servers.json", old="a", new="b")'),
    ("loop", '?FOREACH ($p IN ["a.md", "ours.toml"]) THEN @WRITE_FILE (path="$p", content="x")'),
]


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    (tmp_path / "ours.toml").write_text('schema = 1\nextends = "workspace"\n')
    (tmp_path / "tools.py").write_text(
        "import callsheet\n@callsheet.tool(effect='read')\ndef greet(name: str) -> str:\n    return name\n"
    )
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    return Runtime(
        tools=[tmp_path / "tools.py"],
        mcp=tmp_path / "servers.json",
        builtins=True,
        workspace=tmp_path,
        data=tmp_path / "data",
        journal=tmp_path / "runs.db",
        policy=tmp_path / "ours.toml",
    )


@pytest.mark.parametrize("call", [call for _, call in WRITES], ids=[name for name, _ in WRITES])
async def test_plan_writing_protected_file_is_refused_before_run(
    runtime: Runtime, tmp_path: Path, call: str
) -> None:
    before = _contents(tmp_path)
    with pytest.raises(PolicyRefused, match="controls how runs are checked") as refused:
        await runtime.run(f'S1: {call} > $r\nS2: @RESPOND ("done")')
    assert [d.code for d in refused.value.diagnostics] == ["POL106"]
    assert _contents(tmp_path) == before


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.glob("*.*") if not path.name.startswith("runs.db")
    }


async def test_resumed_runtime_run_protects_same_files(runtime: Runtime, tmp_path: Path) -> None:
    text = 'S1: @FORMAT ("tools{ext}", ext=".py") > $n\nS2: @WRITE_FILE (path="$n", content="x")'
    result = await runtime.run(text.replace('"tools{ext}", ext=".py"', '"tools$e"'), {"e": ".py"})
    assert str(result.status) == "refused"
    assert (tmp_path / "tools.py").read_text() != "x"


async def test_harmless_plans_are_accepted(runtime: Runtime, tmp_path: Path) -> None:
    result = await runtime.run('S1: @WRITE_FILE (path="out.md", content="x") > $r\nS2: @RESPOND ("done")')
    assert str(result.status) == "done"
    assert (tmp_path / "out.md").read_text() == "x"


async def test_run_with_moved_tools_continues_under_its_policy(runtime: Runtime, tmp_path: Path) -> None:
    text = 'S1: @WRITE_FILE (path="out.md", content="x") > $r\nS2: @RESPOND ("done")'
    first = await runtime.run(text, run_id="one")
    other = Runtime(builtins=True, workspace=tmp_path, data=tmp_path / "data", journal=tmp_path / "runs.db")
    again = await other.resume("one", policy=tmp_path / "ours.toml")
    assert again.response == first.response
