"""Bundles the web viewer for the browser: its pages, their script and style, the library of its editor.

In: the modules and styles of this package and of the viewer of runs. Out: files; the output is reproducible.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from callsheet.runtime.reporting import viewer_modules, viewer_style
from callsheet.views.report.page import bundle

_ENTRY = "web/pages/app.js"
_SCRIPT = "text/javascript; charset=utf-8"
_PAGE = """<!doctype html>
<html lang="en" data-theme="auto">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/app.css">{head}
</head>
<body>
{body}
</body>
</html>
"""
_LOADED = '<div id="callsheet"><noscript>These pages need JavaScript.</noscript></div>'


class Asset(NamedTuple):
    """A file for a browser: its media type and its bytes."""

    media_type: str
    data: bytes

    @property
    def tag(self) -> str:
        """The name of exactly these bytes, by which a browser knows whether it has them."""
        return _tag(self.data)


@cache
def _tag(data: bytes) -> str:
    return f'"{sha256(data).hexdigest()[:32]}"'


def page(title: str, body: str, head: str = "") -> Asset:
    """A page in the style of the web viewer; its title, its body and more for its head are HTML."""
    return Asset("text/html; charset=utf-8", _PAGE.format(title=title, body=body, head=head).encode())


@cache
def assets() -> dict[str, Asset]:
    """The files of the web viewer, by name; `index.html` is the page.

    >>> sorted(assets())
    ['app.css', 'app.js', 'codemirror.js', 'index.html']
    """
    folder = files("callsheet.apps.web")
    pages = {
        f"web/pages/{file.name}": file.read_text(encoding="utf-8")
        for file in sorted(folder.joinpath("pages").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".js")
    }
    script = bundle(viewer_modules() | pages, _ENTRY)
    style = viewer_style() + "\n" + folder.joinpath("styles", "pages.css").read_text(encoding="utf-8")
    return {
        "index.html": page("callsheet", _LOADED, '\n<script src="/assets/app.js" defer></script>'),
        "app.js": Asset(_SCRIPT, script.encode()),
        "codemirror.js": Asset(_SCRIPT, folder.joinpath("vendor", "codemirror.js").read_bytes()),
        "app.css": Asset("text/css; charset=utf-8", style.encode()),
    }
