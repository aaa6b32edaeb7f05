"""Detects active HTML: markup that can read the page around it and send it away.

In: a text of the plan itself. Out: whether it contains a script, form, frame, style or external page. Pure;
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from callsheet.policy.urls import MARK

_TAG = re.compile(r"<([a-z][\w:-]*)([^<>]*)", re.I)
_QUOTED_TAG = re.compile(r"""<([a-z][\w:-]*)((?:[^<>"']|"[^"]*"|'[^']*')*+)""", re.I)
"""A tag as browsers parse it: a bracket inside quotes does not end it. Other programs use `_TAG`."""
_HANDLER = re.compile(r"""(?:\A|[\s/"'])(?:on\w+|srcdoc|formaction)\s*=""", re.I)
_FETCHED = frozenset({"iframe", "frame", "object", "embed", "applet", "portal", "link", "base"})
"""Elements that embed external content or change where links lead."""
_REFRESH = re.compile(r"http-equiv\s*=\s*[\"']?\s*refresh", re.I)
_ELSEWHERE = re.compile(r""":|[/\\]{2}|=\s*(?:(["'])\s*\1|["']?\s*\Z)""")
"""An address outside the page, or one supplied by data."""
_STYLE_LOADS = re.compile(r"@import\b|url\(", re.I)
_SCRIPT_ADDRESS = re.compile(r"(?<![\w-])(?:java|vb)script:(?=\S)", re.I)
_LEFT_OUT = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that browsers drop from addresses."""
_NAMED_TAG = re.compile(r"(?<!`)`</?[a-z][\w:-]*\s?/?>`(?!`)", re.I)
"""A tag that is only mentioned: alone in a code span."""


PERHAPS = "\ufffa"
"""Stands for a quote that may not be there: JSON has quotes around texts, and none around numbers."""
_PIECE = re.compile(rf"[<>=\"'{PERHAPS}]|[ \t\n\r\f]+|[^<>=\"' \t\n\r\f{PERHAPS}]+")
_TAG_NAME = re.compile(rf"[A-Za-z{MARK}]")
_SHOWN = frozenset(
    {"title", "alt", "class", "lang", "dir", "width", "height", "align", "colspan", "rowspan", "role"}
)
"""Attributes that are shown or shape what is shown, and are sent to nobody."""
_NAME, _EQUALS, _BARE, _DOUBLE, _SINGLE = "name", "equals", "bare", "double", "single"
"""Where a browser may be in a tag: among names, behind an equals sign, in a value without or with quotes."""


class OpenTag:
    """Follows a text as browsers parse its tags, from each place at which one may begin.

    >>> tag = OpenTag()
    >>> tag.feed("<b>1 < 2</b> <img alt='>")
    >>> tag.is_in_value
    True
    """

    __slots__ = ("_begins", "_places", "_word", "is_shown")

    def __init__(self) -> None:
        self._places: frozenset[str] = frozenset()
        self._begins = False
        self._word = ""
        self.is_shown = False
        """Whether the last attribute with a value is only shown, like a title."""

    @property
    def is_in_value(self) -> bool:
        """Whether what follows may belong to the value of an attribute."""
        return not self._places <= {_NAME}

    def feed(self, text: str) -> None:
        """Go on with a text."""
        if self._begins and _TAG_NAME.match(text):
            self._places |= {_NAME}
        if not self._places and "<" not in text:
            self._begins = self._begins and not text
            return
        for found in _PIECE.finditer(text):
            piece = found[0]
            if self._places and piece == "=" and self._places & {_NAME}:
                self.is_shown = self._word.lower() in _SHOWN
            if piece.isalpha():
                self._word = piece
            elif piece not in "=" and not piece.isspace():
                self._word = ""
            if self._places:
                self._places = frozenset([after for place in self._places for after in _next(place, piece)])
            if piece == "<" and _TAG_NAME.match(text, found.end()):
                self._places |= {_NAME}
        self._begins = text.endswith("<")


def _next(place: str, piece: str) -> tuple[str, ...]:
    """The places in which a browser may be in a tag after a piece; none if the tag is closed."""
    first = piece[0]
    if place in (_DOUBLE, _SINGLE):
        if first == PERHAPS:
            return (place, _NAME) if place == _DOUBLE else (place,)
        return (_NAME,) if first == ('"' if place == _DOUBLE else "'") else (place,)
    if first == ">":
        return ()
    if place == _EQUALS:
        if first in " \t\n\r\f":
            return (_EQUALS,)
        quoted = {'"': (_DOUBLE,), "'": (_SINGLE,), PERHAPS: (_DOUBLE, _EQUALS)}
        return quoted.get(first, (_BARE,))
    if place == _BARE:
        return (_NAME,) if first in " \t\n\r\f" else (_BARE,)
    return (_EQUALS,) if first == "=" else (_NAME,)


def inert(text: str) -> str:
    """The text with a blank behind each bracket that would begin a tag.

    >>> inert("1 < 2 <b>x</b><!-- y -->")
    '1 < 2 < b>x< /b>< !-- y -->'
    """
    return _BEGIN.sub("< ", text)


_BEGIN = re.compile(r"<(?=[a-z/!?])", re.I)


def is_active(text: str) -> bool:
    """Whether the text, rendered as a page, may read what surrounds it and send it, or let others do so.

    >>> is_active("<script src=//c.example/x.js></script>"), is_active("<b>10 < 12</b>")
    (True, False)
    >>> is_active("the `<form>` that they sent"), is_active("<iframe src='https://c.example/'>")
    (False, True)
    """
    if ":" in text and runs_an_address(text):
        return True
    if "<" not in text:
        return False
    meant = text if _runs_spans(text) else _NAMED_TAG.sub("", text)
    loads_styles = _STYLE_LOADS.search(text) is not None
    return any(
        _is_active_tag(name.lower(), attributes) or (loads_styles and name.lower() == "style")
        for name, attributes in _tags(meant)
    )


def _runs_spans(text: str) -> bool:
    """Whether a renderer without code spans would run what is between two mentioned tags."""
    return "</script" in text.lower() or "${" in text


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """The names and contents of tags, in each way in which a program may parse the text."""
    for pattern in (_TAG, _QUOTED_TAG):
        for match in pattern.finditer(text):
            yield match[1], match[2]


def _is_active_tag(name: str, attributes: str) -> bool:
    if name == "script":
        return True
    if "=" not in attributes:
        return False
    if name == "form" or _HANDLER.search(attributes) is not None:
        return True
    if name in _FETCHED or (name == "meta" and _REFRESH.search(attributes) is not None):
        return _ELSEWHERE.search(unescape(attributes)) is not None
    return False


def runs_an_address(text: str) -> bool:
    """Whether an address in the text is a program that a click would run."""
    if _SCRIPT_ADDRESS.search(text) is not None:
        return True
    read = _LEFT_OUT.sub("", unescape(text))
    return read != text and _SCRIPT_ADDRESS.search(read) is not None
