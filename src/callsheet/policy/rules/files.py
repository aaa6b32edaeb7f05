"""Infers from argument names how an operator's own tools read, write, move or copy files.

Such tools reach nobody outside; a file server has `write_file (path, content)`, `move (source, destination)`
and `append (file, text)`. The names have to serve, since a policy does not describe this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from callsheet.ir.labels import LINKS, LITERAL, UNKNOWN, USER, Label, join
from callsheet.policy.builtins import BUILTINS, PathUse, Reach, Traits, fold
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Rule
from callsheet.policy.paths import PathRefused, workspace_path
from callsheet.policy.programs import is_file_name
from callsheet.policy.rules.attachments import PATHS, label_of, path_of
from callsheet.policy.rules.base import Notes, OfLabels, Setting, flowing, known, of_name, pairs
from callsheet.policy.runnable import is_executable, is_executable_anywhere

_PATHS = PATHS | {"filename", "file_name"}
_SOURCES = frozenset(
    {"source", "src", "source_path", "src_path", "source_file", "from_path", "old_path", "archive",
     "input_file", "sources", "from", "input", "source_paths", "append_from", "copy_from", "from_file",
     "patch_file", "template", "template_file", "template_path", "archive_file", "archive_path", "archives",
     "tar", "tar_file", "tar_path", "tarball", "zip", "zip_file", "zip_path", "zipfile"}
)  # fmt: skip
_TARGETS = frozenset(
    {"destination", "dest", "dst", "target", "target_path", "destination_path", "dest_path", "new_path",
     "to_path", "output_path", "output_file", "outfile", "save_as", "to", "into", "out", "output",
     "dest_dir", "target_dir", "output_dir", "destination_dir", "dest_file", "target_file", "to_file",
     "out_file", "save_to", "save_path", "download_path", "output_filename"}
)  # fmt: skip
_UNPACKED_TO = frozenset(
    {"dest_folder", "destination_folder", "dir", "directory", "extract_dir", "extract_folder", "extract_path",
     "extract_to", "folder", "output_directory", "output_folder", "output_path", "target_folder",
     "unpack_dir", "unpack_to", "unzip_to"}
)  # fmt: skip
"""Arguments that say into which folder an archive is unpacked, beside the other targets."""
_UNPACKS = re.compile(r"UN(?:PACK|ZIP|TAR|RAR|ARCHIVE)|EXTRACT|DECOMPRESS|INFLATE|EXPAND|GUNZIP")
_ARCHIVE = re.compile(
    r".+\.(?:zip|tar|tgz|tbz2?|txz|7z|rar|jar|whl|(?:tar\.)?(?:gz|bz2|xz|zst))", re.IGNORECASE
)
_CONTENTS = frozenset(
    {"blob", "content", "contents", "data", "bytes", "base64", "text", "body", "line", "lines", "new",
     "new_text", "new_str", "edits", "patch", "diff", "replacement", "append", "value", "values", "string",
     "entry", "entries", "json", "message", "html", "markdown", "row", "rows", "note", "payload", "record",
     "records", "file_content", "file_text", "insert_text", "new_content", "new_string", "newtext"}
)  # fmt: skip
_FOR_OTHERS = frozenset(
    {"source", "src", "destination", "dest", "dst", "target", "from", "to", "into", "out", "input", "output",
     "sources", "template", "zip", "tar"}
)  # fmt: skip
TITLES = frozenset({"doc", "document", "id", "name", "title", "uri"})
"""Arguments that name a file besides its content, if their value looks like a file name."""
_ADDRESSES = frozenset({"download_url", "file_url", "href", "link", "source_url", "uri", "url"})
"""Arguments with the address from which a file's content is fetched."""
_REQUESTS = frozenset(
    {"actions", "changes", "copies", "documents", "entries", "files", "items", "moves", "operations", "ops",
     "pairs", "paths", "requests", "steps", "writes"}
)  # fmt: skip
"""Arguments whose dict members are separate requests."""
_SCHEME = re.compile(r"file:(?://(?:localhost(?=/))?)?")
_PLAIN = re.compile(r"[\w.~+/-]+")
_IN_ORDER = frozenset(map(str, range(10)))
"""Positional arguments: the first that looks like a file name is the path."""
FILE_NAMES: frozenset[str] = (
    _PATHS | _SOURCES | _TARGETS | _UNPACKED_TO | TITLES | _ADDRESSES | _REQUESTS | _IN_ORDER
)
"""Folded names of all arguments that may contain a file name."""


class FileAccess(NamedTuple):
    """The paths that a call reads and writes, and the contents it is given to write.

    If it `unpacks`, `reads` are archives and `writes` are folders in which any file may be written.
    """

    reads: tuple[Argument, ...]
    writes: tuple[Argument, ...]
    contents: tuple[Argument, ...]
    unpacks: bool = False

    def in_folders(self) -> Iterator[Argument]:
        """The target paths if the targets are folders: the sources keep their names.

        >>> moved = FileAccess((Argument("path", ("a/b.md",)),), (Argument("to", ("docs",)),), ())
        >>> [target.text for target in moved.in_folders()]
        ['docs/b.md']
        """
        for target in () if self.unpacks else self.writes:
            for source in self.reads:
                if target.text is not None and source.text is not None:
                    name = source.text.replace("\\", "/").rstrip("/").rpartition("/")[2]
                    yield target._replace(parts=(f"{target.text.rstrip('/')}/{name}",))

    @property
    def label(self) -> Label:
        """The join of the labels of the contents."""
        return join(argument.label for argument in self.contents)


def keeps_files(tool: str, traits: Traits | None) -> bool:
    """Whether a tool is an operator's own and may access files of the workspace."""
    return traits is not None and tool not in BUILTINS and traits.reach is Reach.NOBODY


def names_files(call: CallView) -> bool:
    """Whether an argument of a call of such a tool has a name that those of files have."""
    return any(map(_is_of_files, [argument.name for argument in call.arguments]))


@lru_cache(maxsize=1_000)
def _is_of_files(name: str) -> bool:
    return name.casefold() in FILE_NAMES


def filing_of(call: CallView) -> FileAccess:
    """What a call of such a tool does with files.

    >>> def text(name): return Argument(name, ("a.md",))
    >>> moved = filing_of(CallView("S1", "MOVE", (text("path"), text("destination"))))
    >>> [argument.name for argument in moved.reads], [argument.name for argument in moved.writes]
    (['path'], ['destination'])
    >>> written = filing_of(CallView("S1", "APPEND", (text("path"), text("text"))))
    >>> [argument.name for argument in written.writes], filing_of(CallView("S1", "LINT", (text("path"),)))[1]
    (['path'], ())
    """
    if not names_files(call):
        return _NOTHING
    filings = [_filing(fold(call.tool), arguments) for arguments in _requests(call.arguments)]
    if len(filings) == 1:
        return filings[0]
    return FileAccess(
        tuple(path for one in filings for path in one.reads),
        tuple(path for one in filings for path in one.writes),
        tuple(content for one in filings for content in one.contents),
        any(one.unpacks for one in filings),
    )


_NOTHING = FileAccess((), (), ())


def _requests(arguments: tuple[Argument, ...]) -> Iterator[tuple[Argument, ...]]:
    """The arguments of a call, and those of each request nested in it."""
    yield arguments
    for argument in arguments:
        if argument.items and argument.name.casefold() in _REQUESTS:
            fields = pairs(argument)
            for member in argument.items if fields is None else (argument,):
                inner = pairs(member)
                if inner is not None:
                    yield from _requests(tuple(inner))


def _filing(tool: str, arguments: tuple[Argument, ...]) -> FileAccess:
    """What one request does with files."""
    return _unpacking(tool, arguments) or _keeping(arguments)


def _unpacking(tool: str, arguments: tuple[Argument, ...]) -> FileAccess | None:
    """A request that unpacks archives, by the name of its tool or of an argument; None for every other.

    Where it names no folder, they are unpacked where they lie.

    >>> def text(name, value): return Argument(name, (value,))
    >>> unpacked = _unpacking("UNZIP", (text("path", "in/a.zip"), text("folder", "out")))
    >>> [target.text for target in unpacked.writes], _unpacking("COPY", unpacked.reads)
    (['out'], None)
    >>> [target.text for target in _unpacking("UNZIP", unpacked.reads).writes]
    ['in']
    """
    named = {argument.name.casefold() for argument in arguments}
    is_told = any(name.startswith(("extract_", "unpack_", "unzip_")) for name in named & _UNPACKED_TO)
    if not (is_told or _UNPACKS.search(tool)):
        return None
    given = _named(arguments, _PATHS | _SOURCES, is_sure=True)
    files, _ = _in_order(arguments)
    archives = given or tuple(file for file in files if _may_be_archive(file))
    targets = _named(arguments, _TARGETS | _UNPACKED_TO, is_sure=True)
    if not given:
        targets = targets or tuple(a for a in arguments if a.name in _IN_ORDER and a not in archives)
    if not any(_may_be_archive(archive) for archive in archives):
        return None
    return FileAccess(
        archives, targets or tuple(map(_folder_of, archives)), _contents(arguments), unpacks=True
    )


def _may_be_archive(argument: Argument) -> bool:
    return argument.text is None or _ARCHIVE.fullmatch(argument.text.strip()) is not None


def _folder_of(archive: Argument) -> Argument:
    if archive.text is None:
        return archive
    folder = archive.text.replace("\\", "/").rstrip("/").rpartition("/")[0]
    return archive._replace(parts=(folder or ".",))


def _keeping(arguments: tuple[Argument, ...]) -> FileAccess:
    """A request that writes, moves or copies files, or reads them."""
    paths, sources = _named(arguments, _PATHS), _named(arguments, _SOURCES)
    targets = _named(arguments, _TARGETS, is_sure=bool(paths or sources))
    contents = (*_contents(arguments), *_fetched(arguments))
    if targets:
        sources = _named(arguments, _SOURCES, is_sure=True)  # a target implies a source
        return FileAccess((*sources, *paths), targets, contents)
    if paths:
        return FileAccess(sources, paths, contents) if contents or sources else FileAccess(paths, (), ())
    files, others = _in_order(arguments)
    if len(files) > 1:
        return FileAccess(files[:-1], files[-1:], (*contents, *others))
    files = files or tuple(leaf for leaf in _named(arguments, TITLES, is_sure=True) if _is_file(leaf))
    given = (*contents, *others)
    return FileAccess(sources, files, given) if given else FileAccess((*sources, *files), (), ())


def _in_order(arguments: tuple[Argument, ...]) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """The positional arguments, split into file names and others."""
    nameless = tuple(argument for argument in arguments if argument.name in _IN_ORDER)
    files = tuple(argument for argument in nameless if _is_file(argument))
    return files, tuple(argument for argument in nameless if argument not in files)


def _is_file(argument: Argument) -> bool:
    text = None if argument.items else argument.text
    if text is None or not _PLAIN.fullmatch(text):
        return False
    return "/" in text or is_file_name(text) or is_executable_anywhere(text)


def _fetched(arguments: tuple[Argument, ...]) -> Iterator[Argument]:
    """Contents that are fetched from an address, and therefore untrusted."""
    for argument in arguments:
        if argument.name.casefold() in _ADDRESSES and not argument.items:
            first = argument.parts[0] if argument.parts else ""
            if not isinstance(first, str) or first.lower().startswith(("http:", "https:", "ftp:")):
                yield argument._replace(label=argument.label.join(_FROM_OUTSIDE))


_FROM_OUTSIDE = Label(True)


def moved(setting: Setting, call: CallView) -> Label:
    """The label that the policy gives to the files that a call moves or copies."""
    filing = filing_of(call)
    if not filing.writes:
        return LITERAL
    return join(_of_source(setting, source) for source in filing.reads)


def _of_source(setting: Setting, source: Argument) -> Label:
    """The label of a file that is moved; the strictest default if it may be in the workspace."""
    if source.text is None:
        return UNKNOWN
    path = path_of(source)
    if path is not None:
        return setting.sources.whole(path)
    if "://" in source.text and not source.text.startswith("file:"):
        return LITERAL  # not a local file
    return label_of(setting, source) or UNKNOWN


def secret_in(setting: Setting, call: CallView) -> Label | None:
    """The label of a file that a call reads if the policy calls it secret by its name, else None."""
    for path in filing_of(call).reads:
        label = label_of(setting, path) if path.text else None
        if label is not None and label.is_secret:
            return Label(label.untrusted, frozenset({USER, LINKS})) if setting.is_approved(call) else label
    return None


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """EXECUTABLE for untrusted content that such a tool writes to a file that is executed."""
    if not keeps_files(tool, traits):
        return None

    def check(call: CallView, notes: Notes) -> None:
        filing = filing_of(call)
        if not filing.label.untrusted:
            return
        for target in filing.writes:
            if target.text is not None and is_executable_anywhere(target.text):
                notes.object(
                    Rule.EXECUTABLE,
                    f"@{tool} would put untrusted content where it is executed",
                    target.name,
                    help="write it to a file that nothing runs, such as .md or .txt",
                )
                return

    return OfLabels(check, sees=tuple(sorted(FILE_NAMES)))


def _named(
    arguments: tuple[Argument, ...], names: frozenset[str], *, is_sure: bool = False
) -> tuple[Argument, ...]:
    """The values of the arguments of these names that may be paths; with `is_sure`, all of them."""
    given = (argument for argument in arguments if argument.name.casefold() in names)
    named = (value._replace(name=argument.name) for argument in given for value in _values(argument))
    return tuple(value for value in named if is_sure or _may_be_path(value))


def _contents(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The arguments with content for a file, also under the name of a source if they are no path.

    >>> [argument.name for argument in _contents((Argument("data", ("x",)), Argument("src", (), UNKNOWN)))]
    ['data', 'src']
    """
    return tuple(
        argument
        for argument in arguments
        if (name := argument.name.casefold()) in _CONTENTS
        or (name in _SOURCES and not _may_be_path(argument))
    )


def _values(argument: Argument) -> Iterator[Argument]:
    """The value of an argument, or those of a list; dicts are requests of their own."""
    if not argument.items:
        yield _without_scheme(argument)
    elif pairs(argument) is None:
        for item in argument.items:
            yield from _values(item)


def _without_scheme(argument: Argument) -> Argument:
    """A path without a `file:` scheme."""
    text = argument.text
    if text is None or not text.startswith("file:"):
        return argument
    return argument._replace(parts=(_SCHEME.sub("", text),))


def _may_be_path(argument: Argument) -> bool:
    """Whether an argument may be a path, although its name may also denote a place or a language."""
    is_path = argument.name.casefold() not in _FOR_OTHERS
    return is_path or any(sign in known(part) for part in argument.parts for sign in "./")


def prepare_storing(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """The obligation to store a label, or to run code without network unless the policy allows it."""
    if traits is None:
        return None
    if traits.runs_code and not setting.policy.exec_network:

        def sandboxed(call: CallView, notes: Notes) -> None:
            notes.oblige(Duty.SANDBOX, call)

        return OfLabels(sandboxed, only_obliges=True)
    if keeps_files(tool, traits):

        def filed(call: CallView, notes: Notes) -> None:
            filing = filing_of(call)
            if not filing.writes:
                return
            label = filing.label.join(moved(setting, call)).join(call.pc)
            for target in filing.writes:
                own = _label_at(setting, target)
                notes.oblige(Duty.STORE_LABEL, call, str(label), weakens=not label.as_told().flows_to(own))

        return OfLabels(filed, sees=tuple(sorted(FILE_NAMES)), only_obliges=True)
    stores = traits.reach is Reach.MEMORY or (traits.path is not None and traits.path_use is PathUse.WRITE)
    if not stores:
        return None

    def stored(call: CallView, notes: Notes) -> None:
        label = flowing(call).join(call.pc)
        own = _label_of_place(setting, traits, call)
        notes.oblige(Duty.STORE_LABEL, call, str(label), weakens=not label.as_told().flows_to(own))

    return OfLabels(stored, sees=() if traits.path is None else (traits.path,), only_obliges=True)


def _label_of_place(setting: Setting, traits: Traits, call: CallView) -> Label:
    """The label that a later run gives the place if none was stored."""
    if traits.reach is Reach.MEMORY:
        return setting.policy.memory
    argument = of_name(call, traits.path or "")
    return LITERAL if argument is None else _label_at(setting, argument)


def _label_at(setting: Setting, argument: Argument) -> Label:
    """The label that the policy gives the file; the lowest one if the path is unknown or outside."""
    if argument.text is None:
        return LITERAL
    try:
        return setting.sources.file(workspace_path(argument.text), on_host=False)
    except PathRefused:
        return LITERAL


def prepare_executable(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """EXECUTABLE for untrusted content in a file that a shell, build tool, editor or system executes."""
    if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
        return None
    known_traits, name = traits, traits.path

    def check(call: CallView, notes: Notes) -> None:
        argument = of_name(call, name)
        if argument is None or not content_label(call, known_traits).untrusted:
            return
        end = _unknown_end(argument)
        if end is not None:
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content into a file that may be executed:"
                " the end of its path is not known before the run",
                name,
                help=f"end the path with an extension that nothing executes: {_with_ending(end)}",
            )
        elif may_be_executed(argument):
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content where it is executed",
                name,
                help="write it to a file that nothing runs, such as .md or .txt",
            )

    return OfLabels(check, safe=(name, _is_inert))


def _is_inert(text: str) -> bool:
    return not is_executable(text)


def _unknown_end(argument: Argument) -> Hole | None:
    """The data that a path ends with, if its text is not known."""
    end = argument.parts[-1] if argument.parts else ""
    return end if isinstance(end, Hole) and end.text is None else None


def _with_ending(end: Hole) -> str:
    """A reference to this data before a file extension; `$day.md` may stand for `${day}.md`."""
    name, _, ending = end.name.partition(".")
    if not ending.isalpha() or is_executable(f"x.{ending}"):
        ending = "md"
    return f"${{{name}}}.{ending}"


def content_label(call: CallView, traits: Traits) -> Label:
    """The label of what is written to the file: the join of all arguments but the path."""
    return join(a.label for a in call.arguments if a.name.casefold() != traits.path)


def may_be_executed(argument: Argument) -> bool:
    """Whether a file of this path may be executed; a path with an unknown end may be any file."""
    if argument.items or not argument.parts or _unknown_end(argument) is not None:
        return True
    return is_executable("".join(known(part, "x") for part in argument.parts))
