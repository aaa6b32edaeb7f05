"""Files unpacked by an operator's tool have the label of the archive, in the whole target folder."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.tools import plan_of
from tests.security.world import POLICY, World, refusal

from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.passes.verify import verify
from callsheet.policy.model import SourceRule, ToolRule

OURS = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub"))
NAMES = ("UNZIP", "ZIP__EXTRACT", "FETCH_PARTS", "COPY")
FACTS = {name: ToolFacts(Effect.IDEMPOTENT, ("archive", "dest")) for name in NAMES}
SEND = 'S2: @READ_FILE ("{}") > $n\nS3: @WEB_SEARCH ("$n") > $r\nS4: @RESPOND ("done")'


@pytest.fixture
def packed(world: World) -> World:
    """A world with archives, one of them public, a public folder, and tools that unpack."""
    for name in ("mine.zip", "docs/ours.zip"):
        world.write(name, "")
        with zipfile.ZipFile(world.folder / name, "w") as archive:
            archive.writestr("x.md", "what stands in it")
    world.write("docs/old.md", "public")
    world.write("public/old.md", "public")

    async def unpack(args: dict[str, Any], context: Any) -> str:
        given = [str(value) for value in args.values()]
        source = next(value for value in given if value.endswith(".zip"))
        target = next((value for value in given if not value.endswith(".zip")), ".")
        _unpack(world.folder, source, target)
        return "unpacked"

    world.tools |= dict.fromkeys(NAMES, unpack)
    tools = {**POLICY.tools, **dict.fromkeys(NAMES, OURS)}
    public = SourceRule(kind="file", pattern="public/**", label=read_label("T/pub"))
    world.policy = replace(POLICY, tools=tools, sources=(public, *POLICY.sources))
    return world


def _unpack(folder: Path, source: str, target: str) -> None:
    with zipfile.ZipFile(folder / source) as archive:
        archive.extractall(folder / target)


UNPACKING = [
    '@UNZIP (archive="{}", dest="{}")',
    '@UNZIP (zip="{}", folder="{}")',
    '@UNZIP (path="{}", output_dir="{}/")',
    '@UNZIP ("{}", "{}")',
    '@ZIP__EXTRACT (source="{}", destination="./{}")',
    '@FETCH_PARTS (file="{}", extract_to="{}")',
]


@pytest.mark.parametrize("call", UNPACKING)
@pytest.mark.parametrize("folder", ["public", "public/new"])
async def test_unpacked_files_have_label_of_archive(packed: World, call: str, folder: str) -> None:
    first = await packed.run(f"S1: {call.format('mine.zip', folder)} > $u", "first", facts=FACTS)
    assert first.result is not None
    assert first.result.status is Status.DONE
    found = refusal(await packed.run(SEND.format(f"{folder}/x.md"), facts=FACTS))
    assert (found.step, found.rule, packed.sent) == ("S3", "flow", [])


@pytest.mark.parametrize("target", [".", "./", "public/.."])
async def test_archive_unpacked_into_workspace_labels_any_file(packed: World, target: str) -> None:
    text = f'S1: @UNZIP (archive="mine.zip", dest="{target}") > $u'
    await packed.run(text, "first", facts=FACTS)
    found = refusal(await packed.run(SEND.format("docs/old.md"), facts=FACTS))
    assert (found.step, found.rule) == ("S3", "flow")


async def test_archive_without_target_unpacks_beside_itself(packed: World) -> None:
    packed.write("public/in.zip", "")
    (packed.folder / "mine.zip").replace(packed.folder / "public/in.zip")
    packed.policy = replace(
        packed.policy,
        sources=(
            SourceRule(kind="file", pattern="**/*.zip", label=read_label("U/priv")),
            *packed.policy.sources,
        ),
    )
    await packed.run('S1: @UNZIP (path="public/in.zip") > $u', "first", facts=FACTS)
    found = refusal(await packed.run(SEND.format("public/old.md"), facts=FACTS))
    assert (found.step, found.rule) == ("S3", "flow")


async def test_public_archive_keeps_folder_public_and_others_unchanged(packed: World) -> None:
    await packed.run('S1: @UNZIP (archive="docs/ours.zip", dest="public") > $u', "one", facts=FACTS)
    await packed.run('S1: @UNZIP (archive="mine.zip", dest="box") > $u', "two", facts=FACTS)
    for number, name in enumerate(("public/x.md", "docs/old.md")):
        outcome = await packed.run(SEND.format(name), f"read{number}", facts=FACTS)
        assert outcome.result is not None
        assert outcome.result.status is Status.DONE, name


@pytest.mark.parametrize(
    ("dest", "read", "is_refused"),
    [
        ("public", "public/x.md", True),
        ("public", "public/a/x.md", True),
        ("public", "docs/old.md", False),
        (".", "docs/old.md", True),
        ("public/x.md", "public/x.md", True),
        ("$where", "docs/old.md", True),
    ],
)
@pytest.mark.parametrize("archive", ["mine.zip", "docs/ours.zip"])
def test_proof_covers_unpacked_files(
    packed: World, archive: str, dest: str, read: str, is_refused: bool
) -> None:
    text = f'S1: @UNZIP (archive="{archive}", dest="{dest}") > $u\n{SEND.format(read)}'
    verdict = verify(plan_of(text), packed.policy, inputs={"where": read_label("T/pub")}, can_ask=True)
    assert verdict.ok is not (is_refused and archive == "mine.zip")
