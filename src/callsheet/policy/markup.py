"""Detects active HTML: markup that can read the page around it and send it away.

In: a text of the plan itself. Out: whether it contains a script, form, frame, style or external page. Pure;
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

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


def is_active(text: str) -> bool:
    """Whether the text, rendered as a page, may read what surrounds it and send it, or let others do so.

    >>> is_active("<script src=//c.example/x.js></script>"), is_active("<b>10 < 12</b>")
    (True, False)
    >>> is_active("the `<form>` that they sent"), is_active("<iframe src='https://c.example/'>")
    (False, True)
    """
    if ":" in text and _runs_an_address(text):
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


def _runs_an_address(text: str) -> bool:
    if _SCRIPT_ADDRESS.search(text) is not None:
        return True
    read = _LEFT_OUT.sub("", unescape(text))
    return read != text and _SCRIPT_ADDRESS.search(read) is not None
