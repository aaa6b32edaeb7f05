"""Generates the HTML page of a report: self-contained, or with data from a server.

In: a document as JSON data, the viewer's script and style. Out: HTML. A content security policy allows only
this script and this style, by their hashes; the data is never parsed as HTML.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="callsheet"{places}><noscript>This page needs JavaScript; the script is in this file.</noscript></div>
{data}
<script>{script}</script>
</body>
</html>
"""


def page_of(document: dict[str, Any], title: str, script: str, style: str) -> str:
    """Returns a self-contained page with a document."""
    data = f'<script type="application/json" id="callsheet-data">{embedded(document)}</script>'
    return _page(title, script, style, "", data, "")


def served_page(title: str, script: str, style: str, documents: str, events: str = "") -> str:
    """Returns a page that loads its document from the URL `documents`.

    It loads the document again when a server-sent event at the URL `events` reports that the journal has
    grown.
    """
    places = f' data-documents="{_attribute(documents)}" data-events="{_attribute(events)}"'
    return _page(title, script, style, places, "", "'self'")


def _page(title: str, script: str, style: str, places: str, data: str, connect: str) -> str:
    rules = (
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        *((f"connect-src {connect}",) if connect else ()),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return _PAGE.format(
        policy="; ".join(rules),
        title=escape(title),
        style=style,
        places=places,
        data=data,
        script=script,
    )


def embedded(data: object) -> str:
    """Returns JSON that is safe inside a script element, whatever strings it contains.

    >>> embedded({"a": "</script><!--\\u2028&"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u2028\\\\u0026"}'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029\x7f"}
_ESCAPES.update((code, f"\\u{code:04x}") for code in range(0xD800, 0xE000))


def escape(text: str) -> str:
    """Escapes a text for the content of an element.

    >>> escape("<b>&")
    '&lt;b&gt;&amp;'
    """
    safe = text.encode("utf-8", "replace").decode()
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return escape(text).replace('"', "&quot;")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
