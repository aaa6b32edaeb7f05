"""Determines which storage locations besides variables a call accesses: files, memory and working-memory
notes.

In: a call with its arguments. Out: names of places (`file:`, `memory:`, `note:`). The name `*` stands for all
places of a kind, `?` for one that is not statically known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from callsheet.policy.builtins import PathUse, Reach, Traits, fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.paths import (
    PathRefused,
    file_key,
    is_pattern,
    names_within,
    note_key,
    with_folders,
    workspace_path,
)
from callsheet.policy.programs import View, fixed_folder, only_looks
from callsheet.policy.rules.attachments import attached, path_of, sends_files
from callsheet.policy.rules.base import leaves, of_name
from callsheet.policy.rules.files import filing_of, keeps_files

MEMORY = "memory:"
ALL_FILES = "file:*"
SOME_FILE = "file:?"
FOLDER = "folder:"
"""Before the path of a folder: that of any of its files, as an archive that is unpacked there may write."""
BELOW = "files in:"
"""Before the path of a folder: its files at every depth, as a search goes through them."""
ALL_NOTES = "note:*"
SOME_NOTE = "note:?"


CODE = frozenset({"EXEC_CODE", "SHELL_EXEC", "HOST_EXEC"})
"""Tools that run code."""
_READERS = frozenset({"READ_FILE", "SEARCH_FILES", "EDIT_FILE"}) | CODE
_WRITERS = frozenset({"WRITE_FILE", "EDIT_FILE"}) | CODE


class Access(NamedTuple):
    """The places that a call reads, those it writes, and those it fully overwrites.

    If there are places in `sent`, what it reads goes wherever its arguments go; of what was there before the
    plan, only those places count.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()


NOTHING = Access()
_FROM_MEMORY = Access(reads=(MEMORY,))
_TO_MEMORY = Access(writes=(MEMORY,))
_OF_CODE = Access((ALL_FILES,), (SOME_FILE, ALL_FILES))
"""Code that declares nothing may access any file, also those that its arguments do not name."""
_OF_LOOKS = Access((ALL_FILES,))


def access_of(
    tool: str,
    traits: Traits | None,
    calls: Callable[[], Sequence[CallView]],
    agent_tools: frozenset[str],
    seen: Callable[[CallView], View],
) -> Access:
    """The union of the accesses of all calls that a step may make; `tool` is its folded name.

    `calls` is evaluated only if the access depends on the arguments. `seen` says what a call's program sees.
    """
    if traits is None:
        return NOTHING
    fixed = _of_tool(tool, traits)
    if fixed is not None:
        return fixed
    if tool == "AGENT_SOLVE":
        accesses = [_of_agent(_tools_of(call, agent_tools)) for call in calls()]
    else:
        accesses = [_access(tool, traits, call, seen) for call in calls()]
    if len(accesses) == 1:
        return accesses[0]
    reads = tuple(dict.fromkeys(place for access in accesses for place in access.reads))
    writes = tuple(dict.fromkeys(place for access in accesses for place in access.writes))
    sent = tuple(dict.fromkeys(place for access in accesses for place in access.sent))
    return Access(reads, writes, sent=sent)


def _of_tool(tool: str, traits: Traits) -> Access | None:
    """The access of a tool that is independent of its arguments; None if it depends on them."""
    if tool in ("QUERY_MEMORY", "MEMORY_STATS"):
        return _FROM_MEMORY
    if traits.reach is Reach.MEMORY:
        return _TO_MEMORY
    return None


def _access(tool: str, traits: Traits, call: CallView, seen: Callable[[CallView], View]) -> Access:
    if tool in ("SET_WM", "GET_WM"):
        return _of_notes(tool, call)
    if tool in CODE:
        return _of_command(call) if tool == "HOST_EXEC" else _of_program(traits, seen(call))
    if sends_files(tool, traits):
        return _of_attachments(call)
    if keeps_files(tool, traits):
        return _of_filing(call)
    if traits.path is None:
        return NOTHING
    if traits.path_use is PathUse.HOST:
        return NOTHING if tool == "HOST_FILE_LIST" else _of_host(call, traits.path)
    path = _path(call, traits.path)
    if traits.path_use is PathUse.WRITE:
        place = SOME_FILE if path is None else f"file:{path}"
        read = () if tool == "WRITE_FILE" else (ALL_FILES,) if path is None else _read(path)
        return Access(read, (place, *_around(path or ""), ALL_FILES))
    if not path or (tool == "SEARCH_FILES" and is_pattern(path)):
        return Access(reads=(ALL_FILES,))
    if tool == "SEARCH_FILES":
        within = (f"file:{folder}" for folder in with_folders(path)[1:])
        return Access((f"{BELOW}{path}", f"{FOLDER}{path}", *within, *_read(path)))
    return Access(reads=_read(path))


def _of_command(call: CallView) -> Access:
    """A command of the host reads and writes any file, unless it is one of the few that only look."""
    command = of_name(call, "command")
    line = None if command is None else command.text
    return NOTHING if line is not None and only_looks(line) else _OF_CODE


def _of_program(traits: Traits, view: View) -> Access:
    """A program reads what it sees and writes into its sandbox; one that declares nothing touches any."""
    is_networked = traits.reach is Reach.WORLD
    if view.paths is None:
        return Access((ALL_FILES,), _OF_CODE.writes, sent=(ALL_FILES,)) if is_networked else _OF_CODE
    reads = tuple(dict.fromkeys(place for path in view.paths for place in _below_path(path)))
    return Access(reads, sent=reads if is_networked else ())


def _below_path(path: str) -> tuple[str, ...]:
    """The places that a declared file, folder or glob stands for."""
    key = file_key(fixed_folder(path))
    return (f"{BELOW}{key}", *_read(key)) if key else (ALL_FILES,)


def _of_host(call: CallView, name: str) -> Access:
    argument = call.argument(name)
    if argument is None or argument.text is None:
        return _OF_LOOKS
    return _seen((argument.text,))


def _seen(paths: Sequence[str]) -> Access:
    """Read access to the workspace files that these host paths may denote, wherever the workspace is."""
    if not paths:
        return NOTHING
    if any(is_pattern(path) for path in paths):
        return _OF_LOOKS
    names = dict.fromkeys(file_key(name) for path in paths for name in names_within(path))
    return Access(tuple(dict.fromkeys(place for name in names for place in _read(name))))


def _read(key: str) -> tuple[str, ...]:
    """The places that are read with a file, by its key: it may have been put there by another name.

    >>> _read("docs/a.md")
    ('file:docs/a.md', 'folder:docs', 'file:?')
    """
    return (f"file:{key}", *(f"{FOLDER}{folder}" for folder in with_folders(key)[1:]), SOME_FILE)


def _around(key: str) -> list[str]:
    """The folders that contain a file, by its key, as places that are searched."""
    return [f"{BELOW}{folder}" for folder in with_folders(key)[1:]]


def _of_notes(tool: str, call: CallView) -> Access:
    key = call.argument("key")
    text = None if key is None or key.text is None else note_key(key.text)
    if text in ("*", "?"):  # treat as unknown: these names stand for all and some notes
        text = None
    place = SOME_NOTE if text is None else f"note:{text}"
    if tool == "SET_WM":
        return Access((), (place, ALL_NOTES), () if text is None else (place,))
    return Access((ALL_NOTES,) if text is None else (place, SOME_NOTE))


def _of_attachments(call: CallView) -> Access:
    reads: list[str] = []
    for _, path in attached(call):
        named = path_of(path)
        if path.text is None or (named is not None and is_pattern(named)):
            reads.append(ALL_FILES)
        elif named is not None:
            key = file_key(named)
            reads += (f"{BELOW}{key}", *_read(key))
    places = tuple(dict.fromkeys(reads))
    return Access(places, sent=places) if places else NOTHING


def _of_filing(call: CallView) -> Access:
    filing = filing_of(call)
    if not filing.reads and not filing.writes:
        return NOTHING
    named = [path_of(argument) for argument in filing.reads]
    reads = [place for path in named if path is not None for place in _read(file_key(path))]
    if None in named:
        reads = [ALL_FILES]
    written = [_place_of(argument) for argument in (*filing.writes, *filing.in_folders())]
    if filing.unpacks:
        written += [SOME_FILE if place in ("file:", SOME_FILE) else _folder(place) for place in written]
    written += [place for path in written for place in _searched(path)]
    return Access(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys([*written, ALL_FILES] if written else [])))


def _searched(place: str) -> list[str]:
    """The places by which a search finds what is written to a place."""
    kind, _, key = place.partition(":")
    if not key:
        return [SOME_FILE]
    return _around(f"{key}/x" if f"{kind}:" == FOLDER else key)


def _folder(place: str) -> str:
    """Any file of the folder whose own place this is."""
    return f"{FOLDER}{place.removeprefix('file:')}"


def _place_of(path: Argument) -> str:
    named = path_of(path)
    return SOME_FILE if named is None else f"file:{file_key(named)}"


def _tools_of(call: CallView, given: frozenset[str]) -> frozenset[str]:
    """The tools of an agent: those that the policy gives, restricted to those that the call names."""
    wanted = of_name(call, "tools")
    texts = [] if wanted is None else [leaf.text for leaf in leaves(wanted)]
    named = [text for text in texts if text is not None]
    if not texts or len(named) < len(texts):
        return given
    return given & {fold(name) for text in named for name in text.replace(",", " ").split()}


def _of_agent(tools: frozenset[str]) -> Access:
    reads: list[str] = []
    writes: list[str] = []
    if not tools.isdisjoint(_READERS):
        reads.append(ALL_FILES)
    if not tools.isdisjoint({"QUERY_MEMORY", "MEMORY_STATS"}):
        reads.append(MEMORY)
    if "GET_WM" in tools:
        reads.append(ALL_NOTES)
    if not tools.isdisjoint(_WRITERS):
        writes += (SOME_FILE, ALL_FILES)
    if "STORE_FACT" in tools:
        writes.append(MEMORY)
    if "SET_WM" in tools:
        writes += (SOME_NOTE, ALL_NOTES)
    return Access(tuple(reads), tuple(writes), sent=tuple(reads))


def _path(call: CallView, name: str) -> str | None:
    argument = call.argument(name)
    if argument is None or argument.text is None:
        return None
    try:
        return file_key(workspace_path(argument.text))
    except PathRefused:
        return None
