"""Assumptions of a proof are compared with the setup of the runtime before the plan starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet import Plan, Runtime, load_policy, tool
from callsheet.api.proving import PolicyRefused, untrusted_hosts
from callsheet.ir.labels import read_label
from callsheet.policy.calls import Duty
from callsheet.policy.model import Audience, Policy, SourceRule, ToolRule
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, FetchSettings

FETCHES = 'S1: @FETCH_PAGE ("https://example.org/") > $p\nS2: @RESPOND ("ok")'
LEAVES = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("{}", $n) > $w\nS3: @RESPOND ("ok")'


def knowing(*hosts: str) -> Policy:
    return Policy(audiences=(Audience(name="trusted", hosts=hosts),))


def settings(folder: Path, **options: Any) -> BuiltinSettings:
    return BuiltinSettings(workspace=folder, data=folder / "data", **options)


@pytest.mark.parametrize(
    ("known", "allowed", "left"),
    [
        ((), ("wiki.lan",), ["wiki.lan"]),
        (("wiki.lan",), ("Wiki.lan.",), []),
        (("*.lan",), ("wiki.lan", "*.deep.lan", "*.lan"), []),
        (("wiki.lan",), ("*.lan", "*"), ["*.lan", "*"]),
        (("10.0.0.0",), ("10.0.0.0", "10.0.0.0/8"), ["10.0.0.0/8"]),
        (("10.0.0.0", "192.168.1.1"), ("192.168.1.1", "[::1]"), ["[::1]"]),
    ],
)
def test_private_host_must_be_audience(
    known: tuple[str, ...], allowed: tuple[str, ...], left: list[str]
) -> None:
    assert untrusted_hosts(knowing(*known), FetchSettings(allow_private_hosts=allowed)) == left


async def test_fetching_plan_does_not_start_where_more_hosts_are_allowed(tmp_path: Path) -> None:
    fetch = FetchSettings(allow_private_hosts=("wiki.lan",))
    runtime = Runtime(builtins=settings(tmp_path, fetch=fetch), policy=Policy())
    with pytest.raises(PolicyRefused) as caught:
        await runtime.run(FETCHES)
    assert [(d.code, d.step) for d in caught.value.diagnostics] == [("POL118", "S1")]
    assert "wiki.lan" in caught.value.diagnostics[0].message
    assert (await runtime.run('S1: @RESPOND ("no page")')).ok, (
        "a plan that fetches nothing does not ask for it"
    )


async def test_code_does_not_start_where_network_is_reachable(tmp_path: Path) -> None:
    runtime = Runtime(builtins=settings(tmp_path, execution=ExecutionSettings(network=True)), policy=Policy())
    with pytest.raises(PolicyRefused) as caught:
        await runtime.run('S1: @EXEC_CODE ("print(1)", "python") > $c')
    assert [d.code for d in caught.value.diagnostics] == ["POL010"]


CODE = 'S1: @EXEC_CODE ("print(1)", "python") > $c\nS2: @RESPOND ("$c")'


@pytest.mark.parametrize(
    ("require", "network", "codes"),
    [
        ("sandbox", False, []),
        ("sandbox", True, []),
        ("best-effort", True, ["POL121"]),
        ("best-effort", False, ["POL010"]),
    ],
)
async def test_code_needs_sandbox_that_hides_files(
    tmp_path: Path, require: Any, network: bool, codes: list[str]
) -> None:
    execution = ExecutionSettings(workspace="read", network=network, require=require)
    runtime = Runtime(builtins=settings(tmp_path, execution=execution), policy=Policy(exec_network=network))
    proof = await runtime.verify(CODE)
    assert [d.code for d in proof.diagnostics] == codes
    assert not (await runtime.verify('S1: @RESPOND ("none")')).diagnostics


async def test_user_tool_with_name_of_builtin_is_reported(tmp_path: Path) -> None:
    @tool(effect="read")
    def fetch_page(url: str) -> str:
        return "a page"

    runtime = Runtime([fetch_page], policy=Policy())
    proof = await runtime.verify(FETCHES)
    assert proof.ok
    assert [(d.code, d.is_error) for d in proof.diagnostics] == [("POL119", False)]


@pytest.mark.parametrize(
    ("path", "records", "codes"),
    [
        ("out.txt", False, []),
        ("docs/out.txt", False, ["POL120"]),
        ("docs/out.txt", True, []),
    ],
)
async def test_labels_are_not_lost(tmp_path: Path, path: str, records: bool, codes: list[str]) -> None:
    sources = (SourceRule(kind="file", pattern="docs/**", label=read_label("T/pub")),)
    journal = tmp_path / "runs.db" if records else None
    runtime = Runtime(builtins=settings(tmp_path), policy=Policy(sources=sources), journal=journal)
    proof = await runtime.verify(LEAVES.format(path))
    assert [d.code for d in proof.diagnostics] == codes
    assert [o.kind for o in proof.obligations] == [Duty.STORE_LABEL]


@tool(name="FS__WRITE", effect="idempotent")
def write_note(path: str, content: str) -> str:
    """Write a file like a file server."""
    return "written"


@tool(name="FS__MOVE", effect="idempotent")
def move_note(source: str, destination: str) -> str:
    """Move a file like a file server."""
    return "moved"


@pytest.mark.parametrize(
    ("plan", "codes"),
    [
        ('S1: @READ_FILE ("notes.txt") > $n\nS2: @FS__WRITE (path="docs/a.md", content=$n)', ["POL120"]),
        ('S1: @FS__MOVE (source="notes.txt", destination="docs/a.md")', ["POL120"]),
        ('S1: @FS__MOVE (source="docs/b.md", destination="docs/a.md")', []),
        ('S1: @FS__MOVE (source="notes.txt", destination="a.md")', []),
    ],
)
async def test_labels_of_writes_by_operator_tools_are_not_lost(
    tmp_path: Path, plan: str, codes: list[str]
) -> None:
    sources = (SourceRule(kind="file", pattern="docs/**", label=read_label("T/pub")),)
    own = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub"))
    policy = Policy(sources=sources, tools={"FS__WRITE": own, "FS__MOVE": own})
    runtime = Runtime([write_note, move_note], builtins=settings(tmp_path), policy=policy)
    proof = await runtime.verify(plan)
    assert [d.code for d in proof.diagnostics if d.is_error] == codes


@pytest.mark.parametrize("version", ["1", "2"])
async def test_plan_that_is_made_during_a_run_relies_on_no_more_than_the_first(
    tmp_path: Path, version: str
) -> None:
    code = '@EXEC_CODE ("print(1)", language="python")'
    new = f"# ltp: {version}\nS1: {code} > $x\nS2: @RESPOND ($x)\n"
    policy = tmp_path / "policy.toml"
    policy.write_text('schema = 1\nextends = "workspace"\n[dynamic]\nreplan = {max = 1, context = "any"}\n')
    execution = ExecutionSettings(require="best-effort", network=True)
    builtins = BuiltinSettings(workspace=tmp_path, data=tmp_path, execution=execution)
    async with Runtime(builtins=builtins, policy=load_policy(policy), compiler=lambda _: new) as runtime:
        with pytest.raises(PolicyRefused, match="POL010"):
            await runtime.run(Plan.parse(new))
        result = await runtime.run(Plan.parse(f'# ltp: {version}\nS1: RE-PLAN ("go on")\n'))
    assert str(result.status) == "failed"
    assert "POL010" in (result.error or "")
