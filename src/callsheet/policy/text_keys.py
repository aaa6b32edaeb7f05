"""Cache keys for the texts of arguments: equal for two texts if every rule treats them alike.

In: a tool under a policy, and the name of an argument. Out: a function from the argument's text to its key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from callsheet.policy.builtins import PathUse, Reach
from callsheet.policy.judge import Judge
from callsheet.policy.paths import PathRefused, workspace_path
from callsheet.policy.rules.attachments import NAMES, sends_files
from callsheet.policy.urls import head_of

TextKey: TypeAlias = "Callable[[str], Hashable]"


def is_address(judge: Judge, tool: str, name: str) -> bool:
    """Whether the argument of this folded name is the address of a request."""
    traits = judge.traits(tool)
    return traits is not None and traits.address is not None and name == traits.address


def key_of_seen(judge: Judge, tool: str, name: str) -> TextKey | None:
    """The keys of an argument whose text matters to the rules; `name` is folded.

    For an address the key is its scheme and authority, for a workspace path the file's label, otherwise the
    text. None for a file that is sent along, where the recipients matter too.

    >>> from callsheet.policy.model import Policy
    >>> path = key_of_seen(Judge(Policy()), "READ_FILE", "path")
    >>> path("a.md") == path("b/c.md")
    True
    >>> key_of_seen(Judge(Policy()), "FETCH_PAGE", "url")("https://c.example/a?b")
    'https://c.example'
    """
    prepared = judge.prepared(tool)
    traits = prepared.traits
    if traits is None:
        return itself
    if traits.reach is Reach.RECIPIENT and name in NAMES and sends_files(prepared.tool, traits):
        return None
    if name == traits.address:
        return _of_address
    if name != traits.path or traits.path_use is PathUse.HOST:
        return itself
    label_of = judge.setting.sources.file

    def of_path(text: str) -> Hashable:
        try:
            return label_of(workspace_path(text))
        except PathRefused:
            return text

    return of_path


def key_of_beside(judge: Judge, tool: str, name: str) -> TextKey:
    """The keys of an argument outside `Prepared.prose`; `name` is exact. All plain texts have the key None.

    >>> from callsheet.policy.model import Policy, ToolRule
    >>> judge = Judge(Policy(tools={"MAIL": ToolRule(audience_arg="to")}))
    >>> [key_of_beside(judge, "MAIL", "subject")(text) for text in ("Number 7", "Number 8", "a/b")]
    [None, None, 'a/b']
    """
    tests = [test_of(name) for test_of in judge.prepared(tool).plain]
    are_plain = [test for test in tests if test is not None]
    if not tests or len(are_plain) < len(tests):
        return itself
    if len(are_plain) == 1:
        (is_plain,) = are_plain
        return lambda text: None if is_plain(text) else text
    return lambda text: None if all(is_plain(text) for is_plain in are_plain) else text


def itself(text: str) -> Hashable:
    """The key of a text of which everything matters."""
    return text


def _of_address(text: str) -> Hashable:
    return head_of(text) or text
