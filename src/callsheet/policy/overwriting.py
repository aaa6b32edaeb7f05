"""Determines the paths that a call may write or remove, whoever provides its tool.

In: a call, as far as its arguments are known. Out: the paths as the call spells them; where they lead is not
looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callsheet import lazy
from callsheet.policy.builtins import BUILTINS, PathUse, Traits, fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.rules.attachments import in_repository
from callsheet.policy.rules.base import of_name
from callsheet.policy.rules.files import FILE_NAMES, filing_of

_MOVES = lazy.pattern(r"MOVE|RENAME|MV(?:_|\Z)|REPLACE")
"""Names of tools after which what was at the source is gone."""
HINT = "write another file; a plan cannot change the files that control runs"
"""What to do instead of writing a file that configures callsheet."""


def overwritten(call: CallView, traits: Traits | None) -> Iterator[str]:
    """The paths that a call may write; those in a repository that it names lie on a server.

    >>> def text(name, value): return Argument(name, (value,))
    >>> written = CallView("S1", "PUT", (text("path", "a.toml"), text("content", "x")))
    >>> list(overwritten(written, None)), list(overwritten(written._replace(tool="READ_FILE"), None))
    (['a.toml'], [])
    >>> moved = CallView("S1", "MOVE_FILE", (text("source", "a.toml"), text("destination", "old")))
    >>> list(overwritten(moved, None))
    ['old', 'old/a.toml', 'a.toml']
    """
    tool = fold(call.tool)
    if not may_overwrite(tool, (argument.name for argument in call.arguments), traits):
        return
    if tool in BUILTINS:
        assert traits is not None
        argument = of_name(call, traits.path or "")
        yield from _texts(() if argument is None else (argument,))
        return
    if in_repository(call):
        return
    filing = filing_of(call)
    yield from _texts((*filing.writes, *filing.in_folders()))
    if filing.writes and _MOVES.search(tool):
        yield from _texts(filing.reads)


def may_overwrite(tool: str, names: Iterable[str], traits: Traits | None) -> bool:
    """Whether a call of a tool with arguments of these names may write a file that it names."""
    if fold(tool) in BUILTINS:
        return traits is not None and traits.path is not None and traits.path_use is PathUse.WRITE
    return any(name.casefold() in FILE_NAMES for name in names)


def _texts(arguments: tuple[Argument, ...]) -> Iterator[str]:
    return (argument.text for argument in arguments if argument.text)
