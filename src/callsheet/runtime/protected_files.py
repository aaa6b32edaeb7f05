"""The files that runs are held by: policies, files that name tools and servers, the configuration.

In: a call and where its workspace is. Out: which of these files it would write. Otherwise what a plan says
would decide what the next one may do. Links are followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os.path import abspath, expanduser, join, realpath
from urllib.parse import unquote

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView
from callsheet.policy.overwriting import overwritten
from callsheet.policy.paths import file_key, readings_of


def places_of(files: Iterable[str]) -> Mapping[str, str]:
    """These files by the keys of all places where they are written, by their names and where these lead."""
    return {file_key(spelled): file for file in files for spelled in (file, _real(file))}


def rewritten(protected: Mapping[str, str], root: str, call: CallView, traits: Traits | None) -> str | None:
    """Why a call may not be made: it would write one of the files; None where it writes none of them.

    `protected` is what `places_of` returns, `root` the workspace, "" for the working directory.
    """
    for path in overwritten(call, traits):
        for place in _places(path, root):
            if place in protected:
                return (
                    f"@{call.tool} would write {path}, and {protected[place]} controls how runs are checked"
                )
    return None


def _places(path: str, root: str) -> Iterable[str]:
    """Where a path may lead, as `file_key` has it, whichever way some system may read it."""
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
    for reading in dict.fromkeys((*readings_of(path), path.strip())):
        place = join(root, expanduser(reading))
        yield from dict.fromkeys((file_key(_real(place)), file_key(_lexical(place))))


def _lexical(path: str) -> str:
    return path if "\x00" in path else abspath(path)


def _real(path: str) -> str:
    return path if "\x00" in path else realpath(path)
