"""Decides which tools of a server may be called, given its pins.

In: pins and a server as it is now. Out: the reason for each tool that must not be called, notices for
people, and records to keep. Pure. A reason may be shown to a model, so it contains nothing from the server
but the tool's name; the changes are in the help of a warning, for people.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Effect
from callsheet.ports.mcp.declarations import argument_order, hinted_effect, pin_of
from callsheet.ports.mcp.servers import McpServerConfig
from callsheet.ports.mcp.trust.records import (
    PinFile,
    PinnedServer,
    PinnedTool,
    Pins,
    RecordReason,
    Reported,
    ServerIdentity,
    identity_of,
)

_FIELDS = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "_meta",
)
_LONGEST = 160
_CONTEXT = 30
_MOST_LINES = 40
_ABSENT = object()


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The protocol fields that differ, and "other fields"; contains no text from the server.

    >>> changed_fields({"name": "a", "x": 1}, {"name": "a", "description": "b"})
    ('description', 'other fields')
    """
    differ = {key for key in {*old, *new} if not _same(old.get(key, _ABSENT), new.get(key, _ABSENT))}
    if argument_order(old) != argument_order(new):
        differ.add("inputSchema")
    named = tuple(field for field in _FIELDS if field in differ)
    return (*named, "other fields") if differ - set(_FIELDS) else named


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, is_whole: bool = False) -> tuple[str, ...]:
    """A line for each value that was added, removed or changed.

    At most forty lines, long texts cut around their first difference; everything if `is_whole`.

    >>> differences({"description": "Reads."}, {"description": "Reads.\\u200b", "title": "R"})
    ('description: "Reads." → "Reads.<U+200B>"', 'title: added "R"')
    """
    limit = sys.maxsize if is_whole else _LONGEST
    lines = (*_moved(old, new, limit), *_compared("", old, new, limit))
    more = 0 if is_whole else len(lines) - _MOST_LINES
    return (*lines[:_MOST_LINES], f"… and {more} more") if more > 0 else lines


def _moved(old: Mapping[str, Any], new: Mapping[str, Any], limit: int) -> Iterator[str]:
    """A line if positional values of existing calls would fill other arguments than before."""
    before, after = argument_order(old), argument_order(new)
    now = {name: place for place, name in enumerate(after)}
    if any(now.get(name, place) != place for place, name in enumerate(before)):
        was, is_now = (_shown(", ".join(names), limit) for names in (before, after))
        yield f"order of the arguments: {was} → {is_now}; values without names go to other arguments"


def visible(text: str, *, keeps_lines: bool = False) -> str:
    """The text with invisible and control characters escaped, except line ends if it `keeps_lines`.

    >>> visible("a\\u202eb\\x1b[1m\\n")
    'a<U+202E>b<U+001B>[1m<U+000A>'
    """
    kept = "\n" if keeps_lines else ""
    return "".join(c if c in kept or _is_seen(c) else f"<U+{ord(c):04X}>" for c in text)


def _is_seen(char: str) -> bool:
    if char.isascii():
        return " " <= char <= "~"
    category = unicodedata.category(char)
    # Combining marks (variation selectors among them), fillers and odd blanks can hide text as well.
    return category[0] not in "CZM" and char not in _BLANK_LETTERS


_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def _compared(path: str, old: object, new: object, limit: int) -> Iterator[str]:
    if _same(old, new):
        return
    before, after = _fields_of(old), _fields_of(new)
    if before is not None and after is not None:
        for key in (*before, *(key for key in after if key not in before)):
            values = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _compared(_joined(path, key), *values, limit)
    elif isinstance(old, str) and isinstance(new, str):
        yield f"{path or 'it'}: {_texts(old, new, limit)}"
    elif old is _ABSENT:
        yield f"{path}: added {_shown(new, limit)}"
    elif new is _ABSENT:
        yield f"{path}: removed, was {_shown(old, limit)}"
    else:
        yield f"{path or 'it'}: {_shown(old, limit)} → {_shown(new, limit)}"


def _fields_of(value: object) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _items_of(value: object) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def _same(old: object, new: object) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true differ."""
    before, after = _fields_of(old), _fields_of(new)
    if before is not None and after is not None:
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    left, right = _items_of(old), _items_of(new)
    if left is not None and right is not None:
        return len(left) == len(right) and all(map(_same, left, right))
    return type(old) is type(new) and old == new


def _joined(path: str, key: str) -> str:
    name = visible(key)
    plain = name.replace("_", "").replace("-", "").isalnum()
    own = name if plain else f'"{name}"'
    return f"{path}.{own}" if path else own


def _texts(old: str, new: str, limit: int) -> str:
    """Two texts; long ones are cut around their first difference."""
    if max(len(old), len(new)) <= limit:
        return f'"{visible(old)}" → "{visible(new)}"'
    differing = (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    start = next(differing, min(len(old), len(new)))
    begin = max(0, start - _CONTEXT)
    return f"from character {start + 1}: {_part(old, begin, limit)} → {_part(new, begin, limit)}"


def _part(text: str, begin: int, limit: int) -> str:
    end = begin + limit
    head, tail = ("…" if begin else ""), ("…" if end < len(text) else "")
    return f'"{head}{visible(text[begin:end])}{tail}"'


def _shown(value: object, limit: int) -> str:
    if isinstance(value, str):
        return _part(value, 0, limit)
    text = visible(json.dumps(cast("Any", value), ensure_ascii=False))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


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
    return Judgement(
        refusals,
        (*findings, *_gathered(seen, notices, is_locked=_is_locked(known))),
        None if refusals else renewed,
    )


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
            f"`callsheet {'lock --refresh' if _is_locked(known) else 'trust diff'} {server}`"
            " shows the other differences",
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
        help=_hints_of(name, seen.declarations)
        + f"`callsheet trust list {name}` shows them"
        + (f"; known under this name so far: {', '.join(others[:_MOST_OTHERS])}{rest}" if others else ""),
    )
    return Judgement(notices=(notice,), first_seen=PinnedServer(seen.identity, seen.reported, tools))


def _hints_of(server: str, declarations: Mapping[str, Mapping[str, Any]]) -> str:
    """What the server says of the effects of its tools, and how to accept that; empty if it says nothing."""
    hinted = [hinted_effect(declaration) for declaration in declarations.values()]
    reads, repeats = hinted.count(Effect.READ), hinted.count(Effect.IDEMPOTENT)
    if not reads and not repeats:
        return ""
    said = hints_text(reads, repeats)
    return f"of {len(hinted)}, {said}: accept that with `callsheet lock --accept {server}`; "


def hints_text(reads: int, repeats: int) -> str:
    """How many tools of a server say that they only read, and that they may be repeated.

    >>> hints_text(7, 1)
    '7 say that they only read and 1 that it may be repeated'
    """
    said: list[str] = []
    for count, one, many in (
        (reads, "it only reads", "they only read"),
        (repeats, "it may be repeated", "they may be repeated"),
    ):
        if count:
            verb = "" if said else " says" if count == 1 else " say"
            said.append(f"{count}{verb} that {one if count == 1 else many}")
    return " and ".join(said)


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
    is_locked = _is_locked(known)
    if is_locked:
        hint = f"`callsheet lock --refresh {server}` shows it, and takes it into the lock file"
    if pinned_tool is None:
        is_new = known is not None and bool(known.tools)
        why = "is new on a known server" if is_new else "is not approved"
        why = "is not in the lock file" if is_locked else why
        return Diagnostic(UNAPPROVED, Severity.ERROR, f"{tool} {why}; it is not called", help=hint)
    if pinned_tool.pin != pin_of(declaration):
        fields = ", ".join(changed_fields(pinned_tool.declaration, declaration))
        message = (
            f"{tool} is declared differently than {_SINCE[pinned_tool.reason]} ({fields}); it is not called"
        )
        return Diagnostic(CHANGED, Severity.ERROR, message, help=hint)
    if known is not None and known.reported.name != seen.reported.name:
        message = f"{tool} is offered by a server that now reports another name; it is not called"
        return Diagnostic(CHANGED, Severity.ERROR, message, help=hint)
    if pinned and pinned_tool.reason is not RecordReason.APPROVED:
        return Diagnostic(UNAPPROVED, Severity.ERROR, f"{tool} is not approved; it is not called", help=hint)
    return None


def _is_locked(known: PinnedServer | None) -> bool:
    """Whether a record is that of a lock file."""
    return known is not None and any(t.reason is RecordReason.LOCKED for t in known.tools.values())


_SINCE = {
    RecordReason.SEEN: "when it was first seen",
    RecordReason.APPROVED: "when it was approved",
    RecordReason.LOCKED: "in the lock file",
}


def _for_people(refusal: Diagnostic, now: Mapping[str, Any], pinned_tool: PinnedTool | None) -> Diagnostic:
    """The refusal as a warning that lists all changes."""
    lines = () if pinned_tool is None else differences(pinned_tool.declaration, now)
    return replace(
        refusal,
        severity=Severity.WARNING,
        help="\n".join((*lines, refusal.help or "")) if lines else refusal.help,
    )


def _gathered(seen: SeenServer, notices: list[Diagnostic], *, is_locked: bool) -> Iterator[Diagnostic]:
    """The notices, with those about unapproved tools combined into one."""
    yield from (notice for notice in notices if notice.code == CHANGED)
    unapproved = [notice for notice in notices if notice.code == UNAPPROVED]
    if len(unapproved) < 2:
        yield from unapproved
        return
    server = seen.identity.name
    state, hint = (
        ("in the lock file", f"`callsheet lock --refresh {server}` shows them, and takes them into it")
        if is_locked
        else (
            "approved",
            f"`callsheet trust diff {server}` shows them, `callsheet trust approve {server}` allows them",
        )
    )
    message = f"{len(unapproved)} tools of the MCP server {server!r} are not {state}; they are not called"
    yield Diagnostic(UNAPPROVED, Severity.WARNING, message, help=hint)


def now() -> str:
    """The current time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PinKeeper:
    """A file of pins and how strictly it is applied.

    With `pinned` only tools approved by a person may be called, and nothing is recorded automatically.
    Otherwise a server seen for the first time is accepted and recorded; from then on its tools must be
    declared as recorded. `records` says whether anything may be written.
    """

    def __init__(self, file: PinFile, *, pinned: bool, records: bool = True) -> None:
        self._file = file
        self._pinned = pinned
        self._records = records and not pinned

    @property
    def needs_approval(self) -> bool:
        """Whether only tools that a person has approved may be called."""
        return self._pinned

    def judge(self, servers: Sequence[SeenServer]) -> tuple[Judgement, ...]:
        """A judgement for each server, in their order; raises CallsheetError (CFG114) for an invalid file."""
        judgements = self._judged(servers, self._file.read())
        if not self._records or all(each.first_seen is None for each in judgements):
            return judgements
        again = judgements

        def keep(pins: Pins) -> Pins:
            nonlocal again
            again = self._judged(servers, pins)  # another process may have been first
            for each in again:
                pins = pins if each.first_seen is None else pins.having(each.first_seen)
            return pins

        try:
            self._file.change(keep)
        except OSError as error:
            return tuple(
                each if each.first_seen is None else self._unkept(each, error) for each in judgements
            )
        return again

    def known(self, configs: Sequence[McpServerConfig]) -> list[tuple[McpServerConfig, Mapping[str, Any]]]:
        """The recorded declarations of these servers' tools, each with its server."""
        pins = self._file.read()
        pinned = ((config, pins.find(identity_of(config))) for config in configs)
        return [(c, tool.declaration) for c, server in pinned if server for tool in server.tools.values()]

    def _judged(self, servers: Sequence[SeenServer], pins: Pins) -> tuple[Judgement, ...]:
        moment = now()
        return tuple(judge(server, pins, pinned=self._pinned, now=moment) for server in servers)

    def _unkept(self, judgement: Judgement, error: OSError) -> Judgement:
        notice = Diagnostic(
            "TOL023",
            Severity.WARNING,
            f"the declarations of a server's tools cannot be stored in {self._file.path}:"
            f" {error.strerror or error}",
            help="later changes would not be detected; name a writable file in CALLSHEET_PINS",
        )
        return replace(judgement, notices=(*judgement.notices, notice))
