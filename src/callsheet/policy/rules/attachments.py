"""FLOW for attachments: files that a call sends by their paths reach only permitted readers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from callsheet.ir.labels import UNKNOWN, Label, join
from callsheet.policy.builtins import BUILTINS, Reach, Traits, fold
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.paths import PathRefused, workspace_path
from callsheet.policy.programs import is_file_name
from callsheet.policy.rules.base import Notes, OfLabels, Setting, known, leaves, pairs, shown
from callsheet.policy.rules.receivers import Receiver, receivers

ATTACHMENTS: frozenset[str] = frozenset(
    {"attachment", "attachments", "attach", "attached", "upload", "uploads"}
)
"""Arguments that name files to send."""
PATHS: frozenset[str] = frozenset(
    {"file", "files", "file_path", "file_paths", "filepath", "filepaths", "path", "paths"}
)  # fmt: skip
"""Arguments that do so unless the call has a content argument, whose file name they would be."""
_ALONG = frozenset(
    {"attached_file", "attached_files", "attachment_path", "attachment_paths", "attachments_list",
     "body_file", "csv", "doc", "document", "documents", "docs", "file_attachments", "html_file", "image",
     "images", "inline_images", "input_file", "input_files", "local_file", "local_files", "local_path",
     "logo", "media", "pdf", "pdfs", "photo", "photos", "picture", "pictures", "report", "reports",
     "source_file", "video", "videos"}
)  # fmt: skip
"""Arguments that may also hold an address or content; a value that looks like a file name is one."""
_FOLDERS = frozenset(
    {"dir_path", "directory_path", "folder_path", "local_dir", "local_directory", "local_folder",
     "source_dir", "source_directory", "source_folder", "upload_dir", "upload_directory", "upload_folder"}
)  # fmt: skip
"""Arguments that name a folder to send, under the same condition as `PATHS`."""
_IF_UPLOADED = frozenset({"dir", "directories", "directory", "dirs", "folder", "folders"})
"""Arguments that do so in a call that uploads by its name and names nothing else to upload; elsewhere they
may be folders of a mailbox, or the folder that a file is put into.
"""
_UPLOADS = re.compile(r"UPLOAD|ATTACH|DEPLOY|BACK_?UP")
NAMES = ATTACHMENTS | PATHS | _ALONG | _FOLDERS | _IF_UPLOADED
_REPOSITORIES = (frozenset({"owner", "repo"}), frozenset({"project_id"}))
"""Arguments that together identify a repository on a server, as on GitHub and GitLab."""
_IN_REPOSITORIES = frozenset({"file_path", "path", "paths"})
"""Arguments that then identify a file in the repository."""
_OF_PEOPLE = re.compile(
    r"(?:file:(?://(?:localhost)?)?)?(?:/+(?:home|root|users)/|~|[a-z]:[/\\]+users[/\\])", re.IGNORECASE
)
"""Users' home folders, which may contain the workspace."""
_CONTENTS = frozenset({"content", "contents", "data", "bytes", "base64"})
_UPLOADED = ATTACHMENTS | PATHS | _ALONG | _FOLDERS | _CONTENTS | {"body", "html", "name", "text", "url"}
_IN_A_DICT = re.compile(r"(?:.*_)?(?:path|file|filename|source|src)", re.IGNORECASE)
_IS_ITS_NAME = re.compile(r"(?:.*_)?(?:id|key|name|title|type)", re.IGNORECASE)
_LEADS_IN = re.compile(r"[^/\\]+[/\\]")


class Attached(NamedTuple):
    """A file to be sent: the name of the argument, and the value that is its path."""

    name: str
    path: Argument


def sends_files(tool: str, traits: Traits | None) -> bool:
    """Whether a tool's arguments may name files that are sent outside."""
    return traits is not None and tool not in BUILTINS and traits.reach in (Reach.WORLD, Reach.RECIPIENT)


def attached(call: CallView) -> Iterator[Attached]:
    """The files that a call of such a tool sends, including those in members of its arguments.

    Paths in a repository that the call identifies are not workspace files.

    >>> def of(*names): return CallView("S1", "GET", tuple(Argument(name, ("a.md",)) for name in names))
    >>> [file.name for file in attached(of("repo", "path"))], list(attached(of("owner", "repo", "path")))
    (['path'], [])
    """
    paths = PATHS | _FOLDERS
    named = (argument.name.casefold() for argument in call.arguments)
    if _UPLOADS.search(fold(call.tool)) and _UPLOADED.isdisjoint(named):
        paths |= _IF_UPLOADED
    if in_repository(call):
        given = [one for one in call.arguments if one.name.casefold() not in _IN_REPOSITORIES]
        return _attached(given, paths)
    return _attached(call.arguments, paths)


def in_repository(call: CallView) -> bool:
    """Whether a call names a repository on a server, in which its paths lie."""
    named = {argument.name.casefold() for argument in call.arguments}
    return any(repository <= named for repository in _REPOSITORIES)


def surely_attached(call: CallView) -> Iterator[Attached]:
    """The files that are sent whatever their paths, judged by argument names alone."""
    return (file for file in attached(call) if file.name.casefold() not in _ALONG)


def _attached(arguments: Sequence[Argument], paths: frozenset[str]) -> Iterator[Attached]:
    has_content = any(argument.name.casefold() in _CONTENTS for argument in arguments)
    for argument in arguments:
        name = argument.name.casefold()
        if name in ATTACHMENTS or (name in paths and not has_content):
            for path in _paths(argument):
                yield Attached(argument.name, path)
        elif name in _ALONG and not has_content:
            named = (leaf for leaf in leaves(argument) if leaf.text and is_file_name(leaf.text))
            yield from (Attached(argument.name, leaf) for leaf in named)
        elif argument.items:
            members = pairs(argument)
            yield from _attached(argument.items if members is None else members, paths)


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for a workspace file whose label does not permit its receivers.

    The label is the one that the policy gives to the path. Paths that do not lead into the workspace are left
    to the tool, unless they are secret by name or in a user's folder.
    """
    if traits is None or not sends_files(tool, traits):
        return None
    known_traits = traits

    def check(call: CallView, notes: Notes) -> None:
        labelled = [(file, _label_along(setting, file)) for file in attached(call)]
        along = [(file, label) for file, label in labelled if label is not None]
        objection = not_theirs(along, receivers(setting, known_traits, call)) if along else None
        if objection is not None:
            (name, path), label, who = objection
            notes.object(
                Rule.FLOW,
                f"{shown(label)} of {_path_text(path)} in {name} of @{tool} would reach {who}",
                name,
                help="attach a file that the policy calls public, or send it to somebody it trusts",
                reaches=who,
            )

    return OfLabels(check, sees=tuple(sorted(NAMES)))


def not_theirs(
    along: Sequence[tuple[Attached, Label]], receivers: Iterable[Receiver]
) -> tuple[Attached, Label, str] | None:
    """The first file that one of these receivers may not read, and who that is.

    Each receiver is asked about each label once, since a call may name many files and recipients.
    """
    first: dict[Label, Attached] = {}
    for file, label in along:
        first.setdefault(label, file)
    for who, audiences in receivers:
        for label, file in first.items():
            if not label.may_reach(audiences):
                return file, label, who
    return None


def path_of(path: Argument) -> str | None:
    """The normal path of a workspace file, None if it is unknown or not in the workspace.

    >>> path_of(Argument("file", ("./a//b.txt",))), path_of(Argument("file", ("https://c.example/",)))
    ('a/b.txt', None)
    """
    try:
        return workspace_path(path.text) if path.text else None
    except PathRefused:
        return None


def _label_along(setting: Setting, file: Attached) -> Label | None:
    """The label of a file that is sent; in a user's home folder, the strict default."""
    label, text = label_of(setting, file.path), file.path.text
    if label is not None or text is None:
        return label
    return UNKNOWN if _OF_PEOPLE.match(text) else None


def label_of(setting: Setting, path: Argument) -> Label | None:
    """The label of the file of this path, as far as it is known; None if it is not a workspace file."""
    if path.text is not None:
        named = path_of(path)
        return _secret_outside(setting, path.text) if named is None else setting.sources.whole(named)
    beginning = path.parts[0] if path.parts else None
    if not isinstance(beginning, str) or not _LEADS_IN.match(beginning):
        return UNKNOWN
    guesses = ["".join(known(part, filling) for part in path.parts) for filling in ("x", "")]
    return join(
        label for guess in guesses if (label := label_of(setting, Argument("", (guess,)))) is not None
    )


def _secret_outside(setting: Setting, text: str) -> Label | None:
    """The label of a file elsewhere on the machine if it is secret by its name, else None."""
    place = re.sub(r"^(?:file://)?[~./\\]*", "", text)
    label = setting.sources.file(place, True) if "://" not in place and place else None
    return label if label is not None and label.is_secret else None


def _path_text(path: Argument) -> str:
    return path_of(path) or "a file that is not known before the run"


def _paths(argument: Argument) -> Iterator[Argument]:
    """The paths in an argument: itself, its items, or the path fields of a dict without contents."""
    if not argument.items:
        yield argument
        return
    members = pairs(argument)
    if members is None:
        for item in argument.items:
            yield from _paths(item)
    elif not any(value.name.casefold() in _CONTENTS for value in members):
        for value in members:
            is_file = not value.items and value.text is not None and is_file_name(value.text)
            if _IN_A_DICT.fullmatch(value.name) or (is_file and not _IS_ITS_NAME.fullmatch(value.name)):
                yield from _paths(value)
