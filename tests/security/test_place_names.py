"""Places with similar names are distinct: none gets the harmless label of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.tools import plan_of
from tests.security.world import FACTS, POLICY, World, refusal

from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, SourceRule, ToolRule
from callsheet.runtime.remaining import left_in
from callsheet.store.labels import LabelStore

HALF = "\\ud83d"
"""Half of a character, as JSON and plans may hold it and no database does."""
FACTS_HERE = {"VAULT": ToolFacts(Effect.READ, ("name",))}
SEARCHED = 'S1: {} > $n\nS2: @WEB_SEARCH ("$n") > $r\nS3: @RESPOND ("done")'


@pytest.fixture
def vault(world: World) -> World:
    """A world with a tool that returns private data; unknown files and facts are public."""

    async def private(args: dict[str, Any], context: Any) -> str:
        return f"private {args['name']}"

    world.tools["VAULT"] = private
    own = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/priv"))
    everything = SourceRule(kind="file", pattern="**", label=read_label("T/pub"))
    world.policy = replace(
        POLICY, sources=(everything,), memory=read_label("U/pub"), tools={**POLICY.tools, "VAULT": own}
    )
    return world


async def left_by(world: World, plan: str, run_id: str) -> None:
    outcome = await world.run(f'{plan}\nS9: @RESPOND ("done")', run_id, facts=FACTS_HERE)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE, outcome.result.response


async def is_told(world: World, read: str, run_id: str = "last") -> bool:
    """Whether the result of a read is sent outside."""
    outcome = await world.run(SEARCHED.format(read), run_id, facts=FACTS_HERE)
    if not world.sent:
        assert refusal(outcome).rule == "flow"
    return bool(world.sent)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Plan.md", "plan.md"),
        ("plan.md", "Plan.md"),
        ("a/plan.md", "A/plan.md"),
        ("a\\\\plan.md", "a/plan.md"),
        (" plan.md", "plan.md"),
        ("plan.md ", "plan.md"),
        ("plan.md", "plan.md "),
    ],
)
async def test_file_keeps_label_when_another_is_written(vault: World, name: str, other: str) -> None:
    await left_by(vault, f'S1: @VAULT ("x") > $s\nS2: @WRITE_FILE ("{name}", "$s") > $r', "first")
    await left_by(vault, f'S1: @WRITE_FILE ("{other}", "hello") > $r', "second")
    assert len([path for path in vault.folder.rglob("*") if path.is_file()]) == 2
    assert not await is_told(vault, f'@READ_FILE ("{name}")')


@pytest.mark.parametrize("name", ["plan.md", "Plan.md", "Docs/README.md"])
async def test_rewritten_file_has_new_label(vault: World, name: str) -> None:
    await left_by(vault, f'S1: @VAULT ("x") > $s\nS2: @WRITE_FILE ("{name}", "$s") > $r', "first")
    await left_by(vault, f'S1: @WRITE_FILE ("./{name}", "hello") > $r', "second")
    assert await is_told(vault, f'@READ_FILE ("{name}")')


async def test_fact_with_lone_surrogate_keeps_label(vault: World) -> None:
    await left_by(vault, f'S1: @VAULT ("x") > $s\nS2: @STORE_FACT ("note {HALF}: $s") > $r', "first")
    assert not await is_told(vault, '@QUERY_MEMORY ("note private")')


@pytest.mark.parametrize("keys", [(f"k{HALF}", "k?"), ("k?", f"k{HALF}"), (f"k{HALF}", "k\\udc00")])
async def test_note_under_lone_surrogate_keeps_label(vault: World, keys: tuple[str, str]) -> None:
    """They are one note: a database stores a lone surrogate as a question mark."""
    noted, asked = keys
    plan = f'S1: @VAULT ("x") > $s\nS2: @SET_WM ("{noted}", $s) > $r\nS3: @GET_WM ("{asked}") > $n'
    outcome = await vault.run(f'{plan}\nS4: @WEB_SEARCH ("$n") > $f', facts=FACTS_HERE)
    assert (refusal(outcome).step, vault.sent) == ("S4", [])


def proved(policy: Policy, text: str) -> bool:
    parameters = {name: fact.parameters for name, fact in {**FACTS, **FACTS_HERE}.items()}
    return not verify(plan_of(text), policy, parameters=parameters).violations


@pytest.mark.parametrize(
    "plan",
    [
        'S3: @SET_WM ("k", $s) > $r\nS4: @SET_WM ("*", "x") > $r\nS5: @GET_WM ($key) > $n',
        'S3: @SET_WM ($key, $s) > $r\nS4: @SET_WM ("?", "x") > $r\nS5: @GET_WM ("k") > $n',
        f'S3: @SET_WM ("k{HALF}", $s) > $r\nS5: @GET_WM ("k?") > $n',
    ],
)
def test_wildcard_like_key_proves_nothing(vault: World, plan: str) -> None:
    begin, end = 'S1: @VAULT ("x") > $s\nS2: @NOTE ("k") > $key\n', '\nS6: @WEB_SEARCH ("$n") > $r'
    assert not proved(vault.policy, f"{begin}{plan}{end}")


def test_other_keys_prove_unchanged(vault: World) -> None:
    for key in ("j", "*", "k*"):
        noted = f'S1: @VAULT ("x") > $s\nS2: @SET_WM ("k", $s) > $r\nS3: @SET_WM ("{key}", "x") > $r'
        text = f'{noted}\nS4: @GET_WM ("{key}") > $n\nS5: @WEB_SEARCH ("$n") > $r'
        assert proved(vault.policy, text) is (key != "*")


def seen_from(world: World, folder: Path) -> World:
    """The same world, with another folder as its workspace."""
    return World(folder, world.journal, world.policy, world.sent, tools=_of_files(folder, world))


def _of_files(folder: Path, world: World) -> dict[str, Any]:
    mine = World(folder, world.journal).tools
    return {**world.tools, **{name: mine[name] for name in ("READ_FILE", "WRITE_FILE", "SEARCH_FILES")}}


@pytest.mark.parametrize(
    ("own", "path", "other", "read"),
    [
        (".", "a/b/plan.md", "a", '@READ_FILE ("b/plan.md")'),
        (".", "a/b/plan.md", "a/b", '@READ_FILE ("plan.md")'),
        (".", "a/b/plan.md", "a", '@SEARCH_FILES ("private")'),
        ("a", "b/plan.md", ".", '@READ_FILE ("a/b/plan.md")'),
        ("a/b", "plan.md", ".", '@READ_FILE ("a/b/plan.md")'),
        ("a/b", "plan.md", ".", '@SEARCH_FILES ("private", path="a")'),
        ("a", "b/plan.md", ".", '@SEARCH_FILES ("private", path="a/b")'),
    ],
)
async def test_file_keeps_label_in_parent_and_child_workspaces(
    vault: World, own: str, path: str, other: str, read: str
) -> None:
    for folder in ("a/b", "c"):
        (vault.folder / folder).mkdir(parents=True)
    here, there = seen_from(vault, vault.folder / own), seen_from(vault, vault.folder / other)
    plan = f'S1: @VAULT ("x") > $s\nS2: @WRITE_FILE ("{path}", "$s") > $r'
    await left_by(here, plan, "first")
    assert not await is_told(there, read)
    await left_by(seen_from(vault, vault.folder / "c"), f'S1: @WRITE_FILE ("{path}", "x") > $r', "second")
    assert await is_told(seen_from(vault, vault.folder / "c"), f'@READ_FILE ("{path}")', "harmless")


@pytest.mark.parametrize(
    ("own", "other", "names"),
    [("/w", "/w/a", {"b.md": "U/priv"}), ("/w/a/c", "/w", {"a/c/a/b.md": "U/priv"}), ("/w", "/v/a", {})],
)
def test_proof_uses_labels_of_parent_and_child_workspaces(
    own: str, other: str, names: dict[str, str]
) -> None:
    with LabelStore.in_memory() as store:
        store.add(own, ["a/b.md"], read_label("U/priv"))
        left = left_in(store, other, "")
        assert {name: str(label) for name, label in left.files.items()} == names
        store.add(own, [""], read_label("T/secret"))
        anywhere = str(left_in(store, other, "").anywhere)
        assert anywhere == ("T/secret" if own == "/w" and names else "T/pub")
