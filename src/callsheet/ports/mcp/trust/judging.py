"""Decides which tools of a server may be called, given its pins.

In: pins and a server as it is now. Out: the reason for each tool that must not be called, notices for
people, and records to keep. Pure. A reason may be shown to a model, so it contains nothing from the server
but the tool's name; the changes are in the help of a warning, for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ports.mcp.declarations import pin_of
from callsheet.ports.mcp.trust.differences import changed_fields, differences, visible
from callsheet.ports.mcp.trust.identity import Reported, ServerIdentity
from callsheet.ports.mcp.trust.records import PinnedServer, PinnedTool, Pins, RecordReason

CHANGED, UNAPPROVED, FIRST_SIGHT, OTHER_VERSION = "TOL020", "TOL021", "TOL022", "TOL025"
_MOST_OTHERS = 3


class SeenServer(NamedTuple):
    """An open server: its identity, what it reports about itself, and its tool declarations."""

    identity: ServerIdentity
    reported: Reported
    declarations: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of checking a server.

    `refusals` has the tools that must not be called, by the server's names; `notices` are for people;
    `first_seen` is the record to keep of a server that was unknown or reports another version.
    """

    refusals: Mapping[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])
    notices: tuple[Diagnostic, ...] = ()
    first_seen: PinnedServer | None = None


def judge(seen: SeenServer, pins: Pins, *, pinned: bool, now: str) -> Judgement:
    """Check a server against its pins; with `pinned` only tools approved by a person may be called."""
    known = pins.find(seen.identity)
    if known is None and not pinned:
        return _at_first_sight(seen, pins, now)
    refusals: dict[str, Diagnostic] = {}
    notices: list[Diagnostic] = []
    for name, declaration in seen.declarations.items():
        pinned_tool = None if known is None else known.tools.get(name)
        refusal = _refusal(seen, name, declaration, pinned_tool, known, pinned=pinned)
        if refusal is not None:
            refusals[name] = refusal
            notices.append(_for_people(refusal, declaration, pinned_tool))
    findings = [] if known is None else list(_version(seen, known))
    renewed = (
        replace(known, reported=seen.reported) if known is not None and findings and not pinned else None
    )
    return Judgement(refusals, (*findings, *_gathered(seen, notices)), None if refusals else renewed)


def _version(seen: SeenServer, known: PinnedServer) -> Iterator[Diagnostic]:
    """A warning that the server reports another version than when its tools were pinned."""
    before, now = known.reported, seen.reported
    if before.name == now.name and before.version != now.version:
        server = seen.identity.name
        was, is_now = (visible(version)[:80] or "none" for version in (before.version, now.version))
        yield Diagnostic(
            OTHER_VERSION,
            Severity.WARNING,
            f"the MCP server {server!r} reports version {is_now}, and had {was} when its tools were recorded",
            help="unchanged tools are still called; "
            f"`callsheet trust diff {server}` shows the other differences",
        )


def _at_first_sight(seen: SeenServer, pins: Pins, now: str) -> Judgement:
    tools = {
        name: PinnedTool(declaration, RecordReason.SEEN, now)
        for name, declaration in seen.declarations.items()
    }
    name, count = seen.identity.name, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"
    others = [*dict.fromkeys(visible(server.identity.place) for server in pins.named(name))]
    rest = f" and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
    notice = Diagnostic(
        FIRST_SIGHT,
        Severity.HINT,
        f"the MCP server {name!r} ({visible(seen.identity.place)}) is seen for the first time:"
        f" its current declarations are recorded ({count})",
        help=f"`callsheet trust list {name}` shows them"
        + (f"; known under this name so far: {', '.join(others[:_MOST_OTHERS])}{rest}" if others else ""),
    )
    return Judgement(notices=(notice,), first_seen=PinnedServer(seen.identity, seen.reported, tools))


def _refusal(
    seen: SeenServer,
    name: str,
    declaration: Mapping[str, Any],
    pinned_tool: PinnedTool | None,
    known: PinnedServer | None,
    *,
    pinned: bool,
) -> Diagnostic | None:
    server = seen.identity.name
    tool, place = f"the tool {name!r} of the MCP server {server!r}", f"{server}/{name}"
    hint = f"`callsheet trust diff {place}` shows it, `callsheet trust approve {place}` allows it"
    if pinned_tool is None:
        is_new = known is not None and bool(known.tools)
        why = "is new on a known server" if is_new else "is not approved"
        return Diagnostic(UNAPPROVED, Severity.ERROR, f"{tool} {why}; it is not called", help=hint)
    if pinned_tool.pin != pin_of(declaration):
        fields = ", ".join(changed_fields(pinned_tool.declaration, declaration))
        since = "approved" if pinned_tool.reason is RecordReason.APPROVED else "first seen"
        message = f"{tool} is declared differently than when it was {since} ({fields}); it is not called"
        return Diagnostic(CHANGED, Severity.ERROR, message, help=hint)
    if known is not None and known.reported.name != seen.reported.name:
        message = f"{tool} is offered by a server that now reports another name; it is not called"
        return Diagnostic(CHANGED, Severity.ERROR, message, help=hint)
    if pinned and pinned_tool.reason is not RecordReason.APPROVED:
        return Diagnostic(UNAPPROVED, Severity.ERROR, f"{tool} is not approved; it is not called", help=hint)
    return None


def _for_people(refusal: Diagnostic, now: Mapping[str, Any], pinned_tool: PinnedTool | None) -> Diagnostic:
    """The refusal as a warning that lists all changes."""
    lines = () if pinned_tool is None else differences(pinned_tool.declaration, now)
    return replace(
        refusal,
        severity=Severity.WARNING,
        help="\n".join((*lines, refusal.help or "")) if lines else refusal.help,
    )


def _gathered(seen: SeenServer, notices: list[Diagnostic]) -> Iterator[Diagnostic]:
    """The notices, with those about unapproved tools combined into one."""
    yield from (notice for notice in notices if notice.code == CHANGED)
    unapproved = [notice for notice in notices if notice.code == UNAPPROVED]
    if len(unapproved) < 2:
        yield from unapproved
        return
    server = seen.identity.name
    yield Diagnostic(
        UNAPPROVED,
        Severity.WARNING,
        f"{len(unapproved)} tools of the MCP server {server!r} are not approved; they are not called",
        help=f"`callsheet trust diff {server}` shows them, `callsheet trust approve {server}` allows them",
    )
