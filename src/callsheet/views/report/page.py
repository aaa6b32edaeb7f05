"""Generates the HTML page of a report, which is self-contained.

In: a document as JSON data, the viewer's script and style. Out: HTML. A content security policy allows only
this script and this style, by their hashes; the data is never parsed as HTML.
"""

from __future__ import annotations

import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from callsheet import lazy

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
<div id="callsheet"><noscript>This page needs JavaScript; the script is in this file.</noscript></div>
{data}
<script>{script}</script>
</body>
</html>
"""


def page_of(document: dict[str, Any], title: str, script: str, style: str) -> str:
    """Returns a self-contained page with a document."""
    rules = (
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    data = f'<script type="application/json" id="callsheet-data">{embedded(document)}</script>'
    return _PAGE.format(policy="; ".join(rules), title=escape(title), style=style, data=data, script=script)


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


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_IMPORT = lazy.pattern(
    r"""(?:^|(?<=[;}\n]))import\s*(\{[^}]*\}|\*\s*as\s+\w+|\w+)\s*from\s*["']([^"']+)["'];?"""
)
_FORWARD = lazy.pattern(r"""(?:^|(?<=[;}\n]))export\s*\{([^}]*)\}\s*from\s*["']([^"']+)["'];?""")
_EXPORT = lazy.pattern(r"(?:^|(?<=[;}\n]))export\s*\{([^}]*)\};?")
_DECLARED = lazy.pattern(r"(?:^|(?<=[;}\n]))export\s+((?:async\s+)?function\*?|const|class)\s+(\w+)")
_DEFAULT = lazy.pattern(r"(?:^|(?<=[;}\n]))export\s+default\s+")
_MAP = lazy.pattern(r"//# sourceMappingURL=.*")
_PAIR = lazy.pattern(r"\s*(\w+)(?:\s+as\s+(\w+))?\s*")


class NotBundled(Exception):
    """A module cannot be bundled: an unsupported form, a cycle, a missing module, or the end of a script."""


def bundle(modules: Mapping[str, str], entry: str) -> str:
    """Bundles the entry and the modules that it needs into one script. Raises NotBundled.

    >>> print(bundle({"./a.js": "export const x = 1;", "b": 'import {x as y} from "./a.js";\\ny;'}, "b"))
    (()=>{"use strict";
    const m0=(()=>{
    const x = 1;
    return{x:x}})();
    const m1=(()=>{
    const {x:y}=m0;
    y;
    return{}})();
    })();
    <BLANKLINE>
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []
    _add(entry, {_place(name): text for name, text in modules.items()}, numbers, parts, ())
    script = '(()=>{"use strict";\n' + "\n".join(parts) + "\n})();\n"
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise NotBundled("a module holds what would end the script")
    return script


def _place(name: str, importer: str = "") -> str:
    """Resolves the name of a module relative to its importer; bare names are unchanged.

    >>> _place("../viewer/ui.js", "web/app.js"), _place("htm", "web/app.js")
    ('viewer/ui.js', 'htm')
    """
    if not name.startswith("."):
        return name
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), name))


def _add(
    name: str,
    modules: Mapping[str, str],
    numbers: dict[str, int],
    parts: list[str],
    importers: tuple[str, ...],
) -> None:
    name = _place(name)
    if name in numbers:
        return
    if name in importers or name not in modules:
        raise NotBundled(f"{name} {'imports itself' if name in importers else 'is not there'}")
    source = _MAP.sub("", modules[name])
    for pattern in (_IMPORT, _FORWARD):
        for match in pattern.finditer(source):
            _add(_place(match[2], name), modules, numbers, parts, (*importers, name))
    exported: dict[str, str] = {}

    def number(imported: str) -> int:
        return numbers[_place(imported, name)]

    source = _FORWARD.sub(lambda match: _forward(match, number(match[2]), exported), source)
    source = _IMPORT.sub(lambda match: f"const {_bound(match[1])}=m{number(match[2])};", source)
    source = _EXPORT.sub(lambda match: _listed(match, exported), source)
    source = _DECLARED.sub(lambda match: _declared(match, exported), source)
    if _DEFAULT.search(source):
        exported["default"] = "$default"
        source = _DEFAULT.sub("const $default=", source)
    numbers[name] = len(numbers)
    listed = ",".join(f"{outside}:{inside}" for outside, inside in exported.items())
    parts.append(f"const m{numbers[name]}=(()=>{{\n{source.strip()}\nreturn{{{listed}}}}})();")


def _pairs(text: str) -> list[tuple[str, str]]:
    """Returns the names of a list such as `a as b,c`, as pairs of the name and its alias."""
    matches = [_PAIR.fullmatch(part) for part in text.split(",") if part.strip()]
    if not all(matches):
        raise NotBundled(f"the list {{{text}}} cannot be read")
    return [(match[1], match[2] or match[1]) for match in matches if match]


def _bound(what: str) -> str:
    if what.startswith("{"):
        return "{" + ",".join(f"{outside}:{inside}" for outside, inside in _pairs(what[1:-1])) + "}"
    if what.startswith("*"):
        return what.rsplit(maxsplit=1)[-1]
    return f"{{default:{what}}}"


def _forward(match: re.Match[str], number: int, exported: dict[str, str]) -> str:
    for inside, outside in _pairs(match[1]):
        exported[outside] = f"m{number}.{inside}"
    return ""


def _listed(match: re.Match[str], exported: dict[str, str]) -> str:
    exported.update((outside, inside) for inside, outside in _pairs(match[1]))
    return ""


def _declared(match: re.Match[str], exported: dict[str, str]) -> str:
    exported[match[2]] = match[2]
    return f"{match[1]} {match[2]}"
