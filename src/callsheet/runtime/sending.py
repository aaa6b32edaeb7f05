"""Files that a call sends along, held against the labels that runs have left them.

In: a call with its real arguments, the labels of files. Out: why it is not made, None where nothing speaks
against it. What the policy itself says of a path has been judged before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.ir.labels import Label
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument
from callsheet.policy.judge import Judge
from callsheet.policy.paths import file_key, workspace_path
from callsheet.policy.rules.attachments import attached, not_theirs, path_of, sends_files
from callsheet.policy.rules.receivers import receivers
from callsheet.runtime.leaving import real_path
from callsheet.runtime.places import Here, view_of
from callsheet.store.labels import LabelStore


def withheld(judge: Judge, labels: LabelStore, root: str, tool: str, args: Mapping[str, Any]) -> str | None:
    """Why a call is not made: a run has put into a file what those who would get it may not have."""
    name, traits = fold(tool), judge.traits(tool)
    if traits is None or not sends_files(name, traits):
        return None
    call, here = view_of(tool, args), Here(root, real=real_path)
    known = [
        (file, label)
        for file in attached(call)
        for label in _labels(judge, labels, here, file.path)
        if label is not None
    ]
    found = not_theirs(known, receivers(judge.setting, traits, call)) if known else None
    if found is None:
        return None
    file, _, who = found
    path = path_of(file.path)
    if path is None or labels.of_files(root, (file_key(path),)) is None:
        return f"{file.path.text} is or leads to a private file, which would reach {who}"
    return f"a run has put private data into {path}, which would reach {who}"


def _labels(judge: Judge, labels: LabelStore, here: Here, path: Argument) -> Iterator[Label | None]:
    """What runs have left in the file of a path, and what the policy says of one that is absolute, or a link.

    Where the workspace lies, and where a link leads, is known only now.
    """
    if not path.text:
        return
    sources, own = judge.setting.sources, path_of(path)
    for spelled in here.inside([path.text]):
        name = workspace_path(spelled)
        yield labels.of_files(here.root, (file_key(name),))
        if name != own:
            yield sources.file(name)
    outside = own and here.outside(own)
    if outside:
        yield sources.file(outside, on_host=True)
