"""Bundles the viewer's ES modules into one classic script, so that a page can be opened from disk.

In: the sources of modules by name. Out: one script with a function for each module, dependencies first. Only
forms of `import` and `export` at the beginning of a line or of a minified statement are supported.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(
    r"""(?:^|(?<=[;}\n]))import\s*(\{[^}]*\}|\*\s*as\s+\w+|\w+)\s*from\s*["']([^"']+)["'];?"""
)
_FORWARD = re.compile(r"""(?:^|(?<=[;}\n]))export\s*\{([^}]*)\}\s*from\s*["']([^"']+)["'];?""")
_EXPORT = re.compile(r"(?:^|(?<=[;}\n]))export\s*\{([^}]*)\};?")
_DECLARED = re.compile(r"(?:^|(?<=[;}\n]))export\s+((?:async\s+)?function\*?|const|class)\s+(\w+)")
_DEFAULT = re.compile(r"(?:^|(?<=[;}\n]))export\s+default\s+")
_MAP = re.compile(r"//# sourceMappingURL=.*")
_PAIR = re.compile(r"\s*(\w+)(?:\s+as\s+(\w+))?\s*")


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
