"""Checks files that a call sends against the labels that runs have left on them.

In: a call with its actual arguments, the stored labels. Out: why it is refused, or None. What the policy says
about the paths has been judged before, except for the files in a folder and those that a glob matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.ir.labels import UNKNOWN, Label, join
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument
from callsheet.policy.judge import Judge
from callsheet.policy.paths import file_key, is_pattern, workspace_path
from callsheet.policy.rules.attachments import attached, not_theirs, path_of, sends_files
from callsheet.policy.rules.receivers import receivers
from callsheet.runtime.folder_files import TooMany, files_of
from callsheet.runtime.label_tracking import real_path
from callsheet.runtime.places import RunWorkspace, view_of
from callsheet.store.labels import LabelStore


def withheld(judge: Judge, labels: LabelStore, root: str, tool: str, args: Mapping[str, Any]) -> str | None:
    """Why a call is refused: it would send a file whose label does not permit its receivers; else None."""
    name, traits = fold(tool), judge.traits(tool)
    if traits is None or not sends_files(name, traits):
        return None
    call, workspace = view_of(tool, args), RunWorkspace(root, real=real_path)
    known = [
        (file, label)
        for file in attached(call)
        for label in _labels(judge, labels, workspace, file.path)
        if label is not None
    ]
    objection = not_theirs(known, receivers(judge.setting, traits, call)) if known else None
    if objection is None:
        return None
    file, _, who = objection
    path = path_of(file.path)
    if path is None or labels.of_files(root, (file_key(path),)) is None:
        return f"{file.path.text} is, or links to, a private file that would reach {who}"
    return f"a run has put private data into {path}, which would reach {who}"


def _labels(
    judge: Judge, labels: LabelStore, workspace: RunWorkspace, path: Argument
) -> Iterator[Label | None]:
    """The stored label of a file or of a folder's files, and the policy's label for an absolute path or the
    target of a link. A pattern may denote any file.

    Where the workspace is and where links lead is only known at run time.
    """
    if not path.text:
        return
    sources, own = judge.setting.sources, path_of(path)
    for spelled in workspace.inside([path.text]):
        name = workspace_path(spelled)
        yield labels.of_files(workspace.root, (file_key(name),))
        yield labels.below(workspace.root, "" if is_pattern(name) else file_key(name))
        if name != own:
            yield sources.file(name)
        yield _of_files(judge, workspace, name)
    outside = own and workspace.outside(own)
    if outside:
        yield sources.file(outside, on_host=True)


def _of_files(judge: Judge, workspace: RunWorkspace, path: str) -> Label | None:
    """The policy's label for the files in a folder, or for those that a glob matches; None for a file."""
    if not workspace.root:
        return None
    sources = judge.setting.sources
    try:
        names = list(files_of(workspace.root, path))
    except TooMany:
        return UNKNOWN
    return join(sources.file(name) for found in names for name in workspace.inside([found]))
