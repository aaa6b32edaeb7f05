"""What a plan may import: the modules, the ways out of all others, and what the imports of a file mean.

In: the nodes of a file, then its imports one by one. Out: what each imported name is, the statements that
pure code needs, and warnings of imports without a use; or `Refused`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from typing import Final

from callsheet.frontends.python.analysis.kinds import OF_LTP
from callsheet.frontends.python.source import Nodes, Refused, dotted, walk
from callsheet.frontends.python.syntax import placed

PURE_MODULES: Final = frozenset(
    {
        *("asyncio", "datetime", "json", "math", "re", "collections", "collections.abc", "itertools"),
        *("functools", "dataclasses", "typing", "statistics", "decimal", "string", "textwrap", "enum"),
        *("operator", "csv", "io", "copy", "bisect", "heapq", "calendar", "logging", "abc", "__future__"),
        *("time", "contextlib", "base64", "hashlib", "random", "unicodedata", "urllib.parse", "os.path"),
        *("html", "zlib", "pathlib", "ipaddress", "uuid", "fractions", "difflib", "graphlib"),
    }
)
"""The modules that a plan may import. Of `time`, `logging`, `random`, `contextlib` a part is understood."""

_WITHOUT: Final[Mapping[str, str]] = {
    "secrets": "random values would differ when the run is resumed",
    "requests": "a plan reaches the network by tools only: await fetch_page(url=…)",
    "httpx": "a plan reaches the network by tools only: await fetch_page(url=…)",
    "aiohttp": "a plan reaches the network by tools only: await fetch_page(url=…)",
    "threading": "write asyncio.gather: steps run side by side without threads",
    "concurrent": "write asyncio.gather: steps run side by side without threads",
    "os": "a plan reaches the machine by tools only; os.path takes paths apart",
    "urllib": "a plan reaches the network by tools only; urllib.parse takes URLs apart",
    "sys": "a plan has no interpreter of its own; end with return or raise",
    "subprocess": "a plan reaches the machine by tools only",
    "socket": "a plan reaches the network by tools only",
    "pickle": "a pickle can run any code; use json",
    "zoneinfo": "write timezone(timedelta(hours=2)) with datetime's names, for an offset that you know",
    "numbers": "write isinstance(x, (int, float))",
    "types": "write a @dataclass, or a dict",
    "pprint": "write json.dumps(value, indent=2)",
    "binascii": "a tool has to encode it",
}
"""What to do without other modules."""

_LEFT_OVER: Final = frozenset(
    {
        *("os", "sys", "types", "pprint", "traceback", "warnings", "inspect"),
        *("zoneinfo", "numbers", "locale"),
    }
)
"""Modules that a plan has not, and that files often import without a use: that is a warning."""

_OWN_PACKAGES: Final = ("callsheet", "tools")
"""Packages whose names are those of the plan's own world: `plan`, `gather`, and stubs of tools."""


class Imports:
    """The imports of a file, of which `nodes` are all nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._awaited, self._inner = _awaited(nodes), _inner_modules(nodes)
        self._used = {one.id for one in nodes.of(ast.Name)}
        self.statements: dict[str, ast.stmt] = {}
        """The import that pure code needs for each name."""
        self.modules: dict[str, str] = {}
        """What an imported name is, as `asyncio.gather`."""
        self.warnings: list[Refused] = []

    def read(self, one: ast.Import | ast.ImportFrom) -> tuple[str, ...]:
        """Read an import; gives the names that it takes from a module, which the file may not have twice.

        Raises Refused for a module that a plan may not import, and for an import that hides what it brings.
        """
        if isinstance(one, ast.Import):
            for each in one.names:
                alone = placed(ast.Import([each]), one)
                if self._is_idle(alone):
                    continue
                self._check_module(each.name, one)
                name = each.asname or each.name.split(".")[0]
                self.modules[name] = each.name if each.asname else name
                self.statements[name] = alone
            return ()
        if self._is_idle(one):
            return ()
        module = one.module or ""
        if one.level or module.split(".")[0] in _OWN_PACKAGES or self._is_of_stubs(one):
            self._read_own(one)
            return ()
        if not all(f"{module}.{each.name}" in PURE_MODULES for each in one.names):
            self._check_module(module, one)
        for each in one.names:
            if each.name == "*":
                raise Refused("PYT005", one, f"`from {module} import *` says no names", "write the names")
            name = each.asname or each.name
            self.modules[name] = f"{module}.{each.name}"
            if module != "__future__":
                self.statements[name] = placed(ast.ImportFrom(module, [each], 0), one)
        return tuple(each.asname or each.name for each in one.names)

    def _read_own(self, one: ast.ImportFrom) -> None:
        """Read names of the plan's own world, which are in scope without an import."""
        for each in one.names:
            if each.name == "*":
                raise Refused(
                    "PYT005",
                    one,
                    f"`from {one.module or ''} import *` says no names",
                    "remove it: tools are in scope without an import",
                )
            if (one.module, each.name) == ("callsheet", "ltp"):
                self.modules[each.asname or each.name] = OF_LTP
                continue
            if each.asname and each.asname != each.name:
                raise Refused(
                    "PYT010",
                    one,
                    f"the tool {each.name} gets another name, {each.asname}",
                    "import it under its own name, so that readers know what is called",
                )

    def _is_idle(self, one: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import of a module that a plan has not is of no use to the file."""
        modules = [each.name for each in one.names] if isinstance(one, ast.Import) else [one.module or ""]
        names = {(each.asname or each.name).partition(".")[0] for each in one.names}
        tops = {each.partition(".")[0] for each in modules}
        if not tops <= _LEFT_OVER or names & {"*", *self._used} or self._inner & tops:
            return False
        self.warnings.append(
            Refused(
                "PYT005",
                one,
                f"a plan has no {modules[0]}, and the file does not use it",
                "remove the import",
            )
        )
        return True

    def _is_of_stubs(self, one: ast.ImportFrom) -> bool:
        """Whether names come from a package of stubs: all are awaited, and Python has no such module."""
        top = (one.module or "").split(".")[0]
        if top in sys.stdlib_module_names or top in _WITHOUT:
            return False
        return all(each.name in self._awaited and each.asname is None for each in one.names)

    def _check_module(self, name: str, node: ast.stmt) -> None:
        if name in PURE_MODULES or name in self._inner:
            return
        others = "a plan may import: " + ", ".join(sorted(PURE_MODULES - {"__future__"}))
        why = _WITHOUT.get(name.split(".", maxsplit=1)[0], others)
        raise Refused("PYT005", node, f"a plan may not import {name}", why)


def _awaited(nodes: Nodes) -> frozenset[str]:
    """The names that a file calls in something that it awaits, or starts as a task."""
    starts = (
        one for one in nodes.of(ast.Call) if (dotted(one.func) or "").endswith(("create_task", "append"))
    )
    calls = (each for one in (*nodes.of(ast.Await), *starts) for each in walk(one))
    return frozenset(
        one.func.id for one in calls if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    )


def _inner_modules(nodes: Nodes) -> frozenset[str]:
    """The modules that a file imports by the name of the one around them, as `os` for `os.path` alone."""
    used = {name for one in nodes.of(ast.Attribute) if (name := dotted(one)) is not None}
    outer = {known.partition(".")[0] for known in PURE_MODULES if "." in known} - PURE_MODULES
    names: dict[str, set[str]] = {}
    for one in used:
        top = one.partition(".")[0]
        if top in outer:
            names.setdefault(top, set()).add(".".join(one.split(".")[:2]))
    return frozenset(top for top, found in names.items() if found <= PURE_MODULES)
