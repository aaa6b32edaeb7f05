"""Files that a call sends along, held against the labels that runs have left them.

In: a call with its real arguments, the labels of files. Out: why it is not made, None where nothing speaks
against it. What the policy itself says of a path has been judged before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.policy.builtins import fold
from callsheet.policy.calls import CallView
from callsheet.policy.judge import Judge
from callsheet.policy.paths import file_key
from callsheet.policy.rules.attachments import Attached, attached, not_theirs, path_of, sends_files
from callsheet.policy.rules.receivers import receivers
from callsheet.runtime.places import view_of
from callsheet.store.labels import LabelStore


def withheld(judge: Judge, labels: LabelStore, root: str, tool: str, args: Mapping[str, Any]) -> str | None:
    """Why a call is not made: a run has put into a file what those who would get it may not have."""
    name, traits = fold(tool), judge.traits(tool)
    if traits is None or not sends_files(name, traits):
        return None
    call = view_of(tool, args)
    known = [(file, labels.of_files(root, (file_key(path),))) for file, path in _files(call)]
    along = [(file, label) for file, label in known if label is not None]
    found = not_theirs(along, receivers(judge.setting, traits, call)) if along else None
    if found is None:
        return None
    file, _, who = found
    return f"a run has put private data into {path_of(file.path)}, which would reach {who}"


def _files(call: CallView) -> Iterator[tuple[Attached, str]]:
    for file in attached(call):
        path = path_of(file.path)
        if path is not None:
            yield file, path
