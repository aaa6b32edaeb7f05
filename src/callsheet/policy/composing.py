"""Decides whether a call's result may be an address that leaks private data, and whether it retells its data.

In: a call as far as it is known, its tool's traits, the label of its result. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from callsheet import lazy
from callsheet.ir import Literal, Ref, Template, Value
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.operations import MODEL_OPERATIONS
from callsheet.policy.builtins import BUILTINS, Reach, Traits, fold
from callsheet.policy.calls import CallView
from callsheet.policy.links import hosts_named, hosts_spoken, images, is_active
from callsheet.policy.rules.answers import links_data
from callsheet.policy.rules.base import Setting, flowing, of_name, own_texts

_JOINING = lazy.pattern(r"\b(?:join|replace|replace_pattern|format_date)\s*\(")
"""Query functions that combine data with the query's own texts."""
_TOKEN = lazy.pattern(r"""'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|\w+|[=!<>]=|\S""", re.S)
_COMPARISONS = frozenset({"==", "!=", "<=", ">=", "<", ">"})
_TESTS = frozenset({"starts_with", "ends_with", "contains"})
"""Query functions that only test whether a text occurs."""
_MODELS = frozenset({"AGENT_SOLVE", *MODEL_OPERATIONS})
"""Tools that are instructed in natural language."""
_HOST = lazy.pattern(r"\A\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*[^/\\?#]*")
_CLOSED = lazy.pattern(r"\s*[A-Za-z][A-Za-z0-9+.-]*://[^\s{}%<>]*[^\s{}%<>=?&#]\s*")


def makes_links(setting: Setting, traits: Traits | None, call: CallView, label: Label) -> bool:
    """Whether a result made of data with this label may be an address that leaks private data.

    A tool may repeat its arguments; one that `composes` may combine them, and what it knows, in any way.
    """
    if traits is not None and (traits.no_echo or traits.reach is Reach.USER):
        return False
    if _is_joined(setting, call) and links_data(setting, beyond_host(call, traits)):
        return True
    if not (traits is None or traits.composes or puts_together(call)):
        return False
    own = list(_own_texts(call))
    if flowing(call).is_public and fold(call.tool) not in BUILTINS:
        own = [text for text in own if not _CLOSED.fullmatch(text)]
    if any(images(text) or is_active(text) for text in own):
        return True
    hosts_in = hosts_spoken if fold(call.tool) in _MODELS else hosts_named
    named = [host for text in own for host in hosts_in(text)]
    return any(host is None or not label.may_reach(setting.audiences.of_host(host)) for host in named)


def retells(traits: Traits | None, call: CallView) -> bool:
    """Whether the result is composed in a way that untrusted text in the data may have influenced."""
    if (traits is not None and traits.no_echo) or flowing(call) == LITERAL:
        return False
    return traits is None or traits.composes or puts_together(call)


def edited(data: Label, around: Label, texts: Iterable[str]) -> Label:
    """The label of a file after an edit: data within a text, or an address before data, may form a link.

    `data` is the label of what is inserted, which contains these `texts`; `around` is that of the file.

    >>> from callsheet.ir.labels import UNKNOWN
    >>> str(edited(UNKNOWN, LITERAL, ["$a"])), str(edited(LITERAL, UNKNOWN, ["done"]))
    ('U/retold', 'T/pub')
    >>> str(edited(LITERAL, UNKNOWN, ["https://c.example/?d="]))
    'U/retold'
    """
    if data.is_public and (around.is_public or not any(_names_address(text) for text in texts)):
        return data
    whole = data.join(around)
    return whole if whole.is_public else Label(True, whole.readers).retold()


def _names_address(text: str) -> bool:
    return bool(hosts_spoken(text)) or images(text) or is_active(text)


def _is_joined(setting: Setting, call: CallView) -> bool:
    """Whether an argument combines private data with anything else; separate arguments do not count."""
    if not setting.policy.planner.is_public:
        return True
    for argument in call.arguments:
        if not argument.label.is_public and (len(argument.parts) > 1 or argument.items):
            return True
    return False


def beyond_host(call: CallView, traits: Traits | None) -> CallView:
    """The call with its address reduced to what follows the host, since the page may repeat that part.

    >>> from callsheet.policy.calls import Argument
    >>> address = Argument("url", ("https://c.example/?to=https%3A//", "d.example"))
    >>> beyond_host(CallView("S1", "FETCH_PAGE", (address,)), BUILTINS["FETCH_PAGE"]).arguments[0].text
    '/?to=https://d.example'
    """
    if traits is None or traits.address is None:
        return call
    argument = of_name(call, traits.address)
    if argument is None or argument.items:
        return call
    parts = [unquote(p) if isinstance(p, str) else p._replace(text="x") for p in argument.parts]
    if parts and isinstance(parts[0], str):
        parts[0] = _HOST.sub("", parts[0])
    shown = argument._replace(parts=tuple(parts))
    return call._replace(arguments=tuple(shown if a is argument else a for a in call.arguments))


def puts_together(call: CallView) -> bool:
    """Whether a query combines its data with its own texts."""
    query = of_name(call, "query") if call.tool == "SELECT" else None
    return query is not None and (query.text is None or _JOINING.search(query.text) is not None)


def _own_texts(call: CallView) -> Iterator[str]:
    """The plan's own texts in a call, as far as they may appear in the result."""
    query = of_name(call, "query") if call.tool == "SELECT" else None
    for argument in call.arguments:
        text = argument.text if argument is query else None
        if text is not None:
            yield texts_given(text)
        else:
            yield from own_texts(argument)


@lru_cache(maxsize=256)
def texts_given(query: str) -> str:
    """A query without the text literals that it only compares with.

    >>> texts_given("join(', ', [?starts_with(url, 'https://c.example/')].url)")
    "join ( ', ' , [ ? starts_with ( url , ) ] . url )"
    """
    tokens = _TOKEN.findall(query)
    opened: list[str] = []
    texts: list[str] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token == "(":
            opened.append(before)
        elif token == ")" and opened:
            opened.pop()
        is_tested = bool(opened) and opened[-1] in _TESTS and (before, after) == (",", ")")
        is_compared = before in _COMPARISONS or after in _COMPARISONS
        if token[0] not in "'`" or not (is_tested or is_compared):
            texts.append(token)
    return " ".join(texts)


_IN_ADDRESS = lazy.pattern(r"[/(<%&\\\].:\x80-\U0010ffff](?!(?<=[.:])\s)")
"""What may begin, join or end an address; a full stop or colon before a blank does not.

One set of characters comes first, which is searched fast.
"""
_END = "\x00"
"""Separates texts that are searched together; to the pattern it is like the end of a text."""
_OPENING = frozenset("<(]&")
"""What begins a tag, a link target (which may continue after a blank) or an entity."""


class Separation(Enum):
    """Whether values stand apart: blanks separate all data in them, and no literal could be of an address."""

    NO = 0
    ALONE = 1
    """They do, and there is at most one piece of data in them."""
    YES = 2


NO, ALONE, YES = Separation
"""Read for each call: a module global is faster than an enum member."""


def separation(values: Iterable[Value]) -> Separation:
    """Whether these values stand apart.

    >>> separation([Template(("Number ", Ref("n"), ": ", Ref("a"))), Ref("b")])
    <Separation.YES: 2>
    >>> separation([Template(("https://c.example/", Ref("a")))])
    <Separation.NO: 0>
    >>> separation([Template((Ref("a"), Ref("b")))])
    <Separation.NO: 0>
    """
    texts: list[str] = []
    holes = 0
    for value in values:
        if type(value) is Ref:
            holes += 1
        elif type(value) is Template:
            is_parted = True
            for part in value.parts:
                if type(part) is str:
                    texts.append(part)
                    is_parted = is_parted or " " in part
                elif is_parted:
                    holes += 1
                    is_parted = False
                else:
                    return NO
        elif type(value) is not Literal:
            return NO
        elif type(value.value) is str:
            texts.append(value.value)
    if texts and _IN_ADDRESS.search(_END.join(texts)):
        return NO
    return YES if holes > 1 else ALONE


def opens_nothing(text: str) -> bool:
    """Whether a text begins no tag or link target that would include what follows it.

    >>> opens_nothing("a. b: c"), opens_nothing("<img src='")
    (True, False)
    """
    return _OPENING.isdisjoint(text)
