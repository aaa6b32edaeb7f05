"""Copies made by programs and operators' tools keep their labels for later runs."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.security.world import POLICY, SECRET, World, refusal

from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.policy.model import ToolRule
from callsheet.store.labels import LabelStore

OURS = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub"))
FACTS = {
    "FS__MOVE": ToolFacts(Effect.IDEMPOTENT, ("source", "destination")),
    "FS__MOVE_ALL": ToolFacts(Effect.IDEMPOTENT, ("sources", "destination")),
    "FS__WRITE": ToolFacts(Effect.IDEMPOTENT, ("path", "content")),
    "FS__BATCH": ToolFacts(Effect.IDEMPOTENT, ("operations",)),
    "FS__READ": ToolFacts(Effect.READ, ("path",)),
    "VAULT": ToolFacts(Effect.READ, ("name",)),
    "HOST_EXEC": ToolFacts(Effect.IDEMPOTENT, ("command",)),
    "HOST_FILE_READ": ToolFacts(Effect.READ, ("path",)),
    "EXEC_CODE": ToolFacts(Effect.IDEMPOTENT, ("code", "language")),
}
KEPT = 'S3: @VAULT ("plan") > $n\nS4: @WRITE_FILE ("docs/b.md", "$n")\nS5: @RESPOND ("done")'
SEARCHED = 'S1: @READ_FILE ("{}") > $n\nS2: @WEB_SEARCH ("$n") > $r\nS3: @RESPOND ("done")'


def output_of(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout


@pytest.fixture
def filed(world: World) -> World:
    """A world with the tools of a file server, a private file, and public ones."""
    folder = world.folder

    async def move(args: dict[str, Any], context: Any) -> str:
        shutil.move(folder / args["source"], folder / args["destination"])
        return "moved"

    async def move_all(args: dict[str, Any], context: Any) -> str:
        for source in args["sources"]:
            shutil.move(folder / source, folder / args["destination"])
        return "moved"

    async def write(args: dict[str, Any], context: Any) -> str:
        (folder / args["path"]).write_text(args["content"])
        return "written"

    async def read(args: dict[str, Any], context: Any) -> str:
        return (folder / args["path"]).read_text()

    async def shell(args: dict[str, Any], context: Any) -> str:
        return await asyncio.to_thread(output_of, ["sh", "-c", args["command"]], folder)

    async def python(args: dict[str, Any], context: Any) -> str:
        return await asyncio.to_thread(output_of, [sys.executable, "-c", args["code"]], folder)

    async def batch(args: dict[str, Any], context: Any) -> str:
        for one in args["operations"]:
            (folder / one["path"]).write_text(one["content"])
        return "written"

    world.tools |= {
        "FS__BATCH": batch,
        "FS__MOVE": move,
        "FS__MOVE_ALL": move_all,
        "FS__WRITE": write,
        "FS__READ": read,
    }

    async def vault(args: dict[str, Any], context: Any) -> str:
        return f"the secret {args['name']}"

    async def host_file(args: dict[str, Any], context: Any) -> str:
        return await asyncio.to_thread(Path(args["path"]).read_text)

    world.tools |= {"HOST_EXEC": shell, "EXEC_CODE": python, "HOST_FILE_READ": host_file, "VAULT": vault}
    own = dict.fromkeys(("FS__BATCH", "FS__MOVE", "FS__MOVE_ALL", "FS__WRITE", "FS__READ"), OURS)
    own["VAULT"] = replace(OURS, returns=SECRET)
    world.policy = replace(world.policy, tools={**POLICY.tools, **own}, approved=frozenset({"S1"}))
    world.write("notes.txt", "private")
    world.write("docs/a.md", "public")
    return world


async def left_by(world: World, plan: str, run_id: str = "first") -> None:
    outcome = await world.run(plan, run_id, facts=FACTS)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE, outcome.result.response


async def search(world: World, path: str, run_id: str = "later") -> Any:
    return await world.run(SEARCHED.format(path), run_id, facts=FACTS)


@pytest.mark.parametrize(
    ("plan", "path"),
    [
        ('S1: @FS__MOVE ("notes.txt", "docs/b.md") > $r', "docs/b.md"),
        ('S1: @FS__MOVE ("notes.txt", "docs/") > $r', "docs/notes.txt"),
        ('S1: @READ_FILE ("notes.txt") > $n\nS2: @FS__WRITE ("docs/b.md", "$n") > $r', "docs/b.md"),
        ('S1: @FS__MOVE ("WORKSPACE/notes.txt", "docs/b.md") > $r', "docs/b.md"),
        ('S1: @FS__MOVE ("notes.txt", "WORKSPACE/./docs/b.md") > $r', "docs/b.md"),
        ('S1: @READ_FILE ("notes.txt") > $n\nS2: @FS__WRITE ("WORKSPACE/docs/b.md", "$n") > $r', "docs/b.md"),
        (
            'S1: @READ_FILE ("notes.txt") > $n\n'
            'S2: @FS__BATCH (operations=[{"path": "docs/b.md", "content": $n}])',
            "docs/b.md",
        ),
        ('S1: @HOST_EXEC ("cp notes.txt docs/b.md") > $r', "docs/b.md"),
        ('S1: @HOST_EXEC ("cp notes.txt docs") > $r', "docs/notes.txt"),
        ('S1: @HOST_EXEC ("cp *.txt docs") > $r', "docs/notes.txt"),
        (
            "S1: @EXEC_CODE (\"open('docs/b.md', 'w').write(open('notes.txt').read())\", \"python\") > $r",
            "docs/b.md",
        ),
    ],
)
async def test_copy_of_private_file_is_private(filed: World, plan: str, path: str) -> None:
    await left_by(filed, plan.replace("WORKSPACE", str(filed.folder)))
    assert (filed.folder / path).read_text() == "private"
    found = refusal(await search(filed, path))
    assert (found.step, found.rule, filed.sent) == ("S2", "flow", [])


@pytest.mark.parametrize(
    "to", ["{f}/docs/b.md", "{f}/docs/../docs/b.md", "//{f}/docs/", "{f}-link/docs/b.md"]
)
async def test_absolute_paths_of_servers_are_recognized(filed: World, to: str) -> None:
    folder = filed.folder
    folder.with_name(f"{folder.name}-link").symlink_to(folder)
    target = to.format(f=folder)
    await left_by(filed, f'S1: @FS__MOVE ("{folder}/notes.txt", "{target}") > $r\nS2: @RESPOND ("done")')
    path = "docs/notes.txt" if to.endswith("/") else "docs/b.md"
    assert (folder / path).read_text() == "private"
    refusal(await search(filed, path))
    plan = f'S1: @FS__READ ("{folder}/{path}") > $n\nS2: @WEB_SEARCH ("$n") > $r\nS3: @RESPOND ("done")'
    refusal(await filed.run(plan, "whole", facts=FACTS))
    assert filed.sent == []


async def test_symlinked_folder_is_its_target(filed: World) -> None:
    (filed.folder / "links").symlink_to("docs")
    await left_by(filed, 'S1: @FS__MOVE ("notes.txt", "links/b.md") > $r\nS2: @RESPOND ("done")')
    assert (filed.folder / "docs/b.md").read_text() == "private"
    refusal(await search(filed, "docs/b.md"))
    plan = 'S1: @FS__READ ("links/b.md") > $n\nS2: @WEB_SEARCH ("$n") > $r\nS3: @RESPOND ("done")'
    refusal(await filed.run(plan, "link", facts=FACTS))
    assert filed.sent == []


async def test_persisted_label_is_copied(filed: World) -> None:
    await left_by(filed, 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/b.md", "$n") > $r')
    await left_by(filed, 'S1: @FS__MOVE ("docs/b.md", "docs/c.md") > $r', "second")
    refusal(await search(filed, "docs/c.md"))
    await left_by(
        filed,
        "S1: @EXEC_CODE (\"import shutil; shutil.copy('docs/c.md', 'docs/d.md')\", \"python\")",
        "third",
    )
    refusal(await search(filed, "docs/d.md", "last"))


async def test_moved_folder_keeps_labels_of_its_files(filed: World) -> None:
    await left_by(filed, 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/in/b.md", "$n") > $r')
    await left_by(filed, 'S1: @FS__MOVE ("docs/in", "docs/out") > $r', "second")
    assert (filed.folder / "docs/out/b.md").read_text() == "private"
    refusal(await search(filed, "docs/out/b.md"))


async def test_bulk_moves_keep_labels(filed: World) -> None:
    many = [f"many/{number}.txt" for number in range(70)]
    for name in many:
        filed.write(name, "private")
    named = ", ".join(f'"{name}"' for name in many)
    await left_by(filed, f'S1: @FS__MOVE_ALL (sources=[{named}], destination="docs/") > $r')
    refusal(await search(filed, "docs/69.txt"))


async def test_reading_operator_tool_returns_persisted_label(filed: World) -> None:
    await left_by(filed, 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/b.md", "$n") > $r')
    plan = 'S1: @FS__READ ("docs/{}.md") > $n\nS2: @WEB_SEARCH ("$n") > $r'
    refusal(await filed.run(plan.format("b"), "second", facts=FACTS))
    await left_by(filed, plan.format("a"), "third")
    assert [call["query"] for call in filed.sent] == ["public"]


async def test_operator_tool_reading_secret_returns_secret(filed: World) -> None:
    filed.policy = replace(filed.policy, approved=frozenset())
    filed.write("box/key.txt", "secret")
    plan = 'S1: @NOTE (text="{}") > $f\nS2: @FS__READ ("$f/key.txt") > $n\nS3: @WEB_SEARCH ("$n") > $r'
    filed.tools["NOTE"] = _same
    found = refusal(await filed.run(plan.format("box"), facts=FACTS))
    assert (found.step, found.rule, filed.sent) == ("S3", "flow", [])
    filed.write("docs/key.txt", "public")
    await left_by(filed, plan.format("docs"), "second")
    assert [call["query"] for call in filed.sent] == ["public"]


async def _same(args: dict[str, Any], context: Any) -> str:
    return args["text"]


@pytest.mark.parametrize(
    "look",
    [
        '@HOST_EXEC ("cat {}/docs/b.md")',
        '@HOST_EXEC ("cat docs/b.md | head -3")',
        '@HOST_EXEC ("cat docs/*.md")',
        '@HOST_EXEC ("ls docs")',
        '@HOST_EXEC ("grep -r plan docs")',
        '@HOST_FILE_READ ("{}/docs/b.md")',
        '@HOST_FILE_READ ("{}/docs/../docs/b.md")',
    ],
)
async def test_host_read_returns_persisted_label(filed: World, look: str) -> None:
    await left_by(filed, KEPT)
    looked = f'S1: {look.format(filed.folder)} > $n\nS2: @RESPOND ("$n")'
    found = refusal(await filed.run(looked, "second", facts=FACTS))
    assert (found.step, found.rule) == ("S2", "flow")


@pytest.mark.parametrize(
    "look",
    ['@HOST_EXEC ("uname -a")', '@HOST_FILE_READ ("{}/docs/a.md")'],
)
async def test_host_read_of_other_file_returns_no_label(filed: World, look: str) -> None:
    await left_by(filed, KEPT)
    await left_by(filed, f'S1: {look.format(filed.folder)} > $n\nS2: @RESPOND ("$n")', "second")


@pytest.mark.parametrize(
    "plan",
    [
        'S1: @FS__MOVE ("docs/c.md", "docs/b.md") > $r',
        'S1: @FS__WRITE ("docs/b.md", "hello") > $r',
        'S1: @FS__READ ("docs/c.md") > $r',
        'S1: @HOST_EXEC ("cp docs/c.md docs/b.md") > $r',
        'S1: @HOST_EXEC ("ls") > $r',
        'S1: @HOST_EXEC ("sort notes.txt > sorted.txt; cp notes.txt docs") > $r',
        'S1: @EXEC_CODE ("print(open(\'docs/c.md\').read())", "python") > $r',
    ],
)
async def test_public_file_stays_public(filed: World, plan: str) -> None:
    filed.write("docs/c.md", "public as well")
    await left_by(filed, plan)
    await left_by(filed, SEARCHED.format("docs/a.md"), "later")
    assert [call["query"] for call in filed.sent] == ["public"]


async def test_unrecordable_move_is_refused(filed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(LabelStore, "begin", full)
    outcome = await filed.run('S1: @FS__MOVE ("notes.txt", "docs/b.md") > $r', facts=FACTS)
    assert outcome.result is not None
    assert "cannot be stored" in outcome.result.response
    assert not (filed.folder / "docs/b.md").exists()
