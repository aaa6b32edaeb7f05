"""The corpus: calls of builtins, methods and modules, and what CPython 3.12 and the executor make of them."""

from __future__ import annotations

import ast
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from benchmarks.pure_code.reference import canonical

from callsheet.frontends.pure_code import Fragment, PureProgram
from callsheet.frontends.pure_code.lowering import Inputs
from callsheet.frontends.pure_code.program import lowered_program, parsed
from callsheet.ports.python_code import Kept, LimitReached, NotUnderstood, Outputs, PythonCode, Raised

FOLDER = Path(__file__).parent
HEAD = """\
import base64, bisect, calendar, collections, copy, csv, decimal, functools, hashlib, heapq, io, itertools
import json, math, operator, random, re, statistics, string, textwrap, typing, unicodedata
import difflib, fractions, graphlib, html, ipaddress, os.path, pathlib, urllib.parse, uuid, zlib
import datetime as datetime_module
from collections import Counter, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
"""


class Case(NamedTuple):
    """One expression of the corpus, and what it is an example of."""

    name: str
    expression: str
    is_known: bool = False
    """Whether it is known to differ."""

    @property
    def source(self) -> str:
        """The program, whose last line gives the value the name `r`."""
        return f"{HEAD}r = {self.expression}"


def cases() -> list[Case]:
    """The corpus."""
    found: list[Case] = []
    for line in (FOLDER / "corpus.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, expressions = line.partition(" | ")
            for one in expressions.split(" ;; "):
                text = one.strip().removeprefix("? ")
                found.append(Case(name.strip(), text, one.strip().startswith("? ")))
    return found


def reference(sources: Iterable[str], python: str, outputs: Iterable[str] = ("r",)) -> list[dict[str, Any]]:
    """What CPython gives for some programs."""
    asked = json.dumps([{"source": source, "outputs": list(outputs)} for source in sources])
    done = subprocess.run(
        [python, "-I", str(FOLDER / "reference.py")], input=asked, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def executed(code: PythonCode, source: str, outputs: Iterable[str] = ("r",)) -> dict[str, Any]:
    """What the executor gives for a program, whatever pure code may not say of it."""
    program: PureProgram = lowered_program(parsed(Fragment(source)), Inputs())
    result = code.compute(program, {}, outputs)
    match result:
        case Outputs():
            values = {name: canonical(_plain(value)) for name, value in result.values.items()}
            return {"values": values, "printed": result.printed}
        case Raised():
            return {"raises": result.kind, "line": None if result.place is None else result.place.line}
        case LimitReached(limit=limit):
            return {"raises": "RecursionError" if limit == "depth" else f"limit {limit}", "line": None}
        case NotUnderstood(message=message):
            return {"lacks": message}
        case _:
            return {"died": str(result)}


def _plain(value: Any) -> Any:
    """Kept values as the objects that they are data of."""
    if isinstance(value, Kept):
        if value.kind == "Counter":
            return Counter[Any](_plain(value.parts[0]))
        if value.kind == "defaultdict":
            return defaultdict[Any, Any](None, _plain(value.parts[1]))
        return value.kind
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if type(value) is tuple:
        return tuple(_plain(item) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def form_of(case: Case) -> tuple[int, tuple[str, ...]] | None:
    """How a case calls its subject: the number of positional arguments and the names of the others."""
    owner, _, name = case.name.partition(".")
    name = name.rpartition(".")[2]
    for node in ast.walk(ast.parse(case.expression)):
        if isinstance(node, ast.Call):
            func = node.func
            called = (
                func.id
                if isinstance(func, ast.Name)
                else func.attr
                if isinstance(func, ast.Attribute)
                else ""
            )
            if called == name and not any(isinstance(argument, ast.Starred) for argument in node.args):
                unbound = (
                    isinstance(func, ast.Attribute) and ast.unparse(func.value) == owner and owner in _TYPES
                )
                number = len(node.args) - (1 if unbound and name not in _OF_TYPES else 0)
                return number, tuple(sorted(word.arg for word in node.keywords if word.arg is not None))
    return None


_TYPES = ("str", "list", "dict", "set", "date", "datetime", "Decimal")
_OF_TYPES = (
    "fromisoformat", "fromtimestamp", "fromordinal", "strptime", "combine", "fromkeys", "maketrans",
)  # fmt: skip


def table(expected: Mapping[Case, dict[str, Any]], got: Mapping[Case, dict[str, Any]]) -> dict[str, Any]:
    """The table of what is understood: the forms of calls all of whose examples agree."""
    names: dict[str, dict[tuple[int, tuple[str, ...]] | None, bool]] = {}
    for case, wanted in expected.items():
        forms = names.setdefault(case.name, {})
        if case.is_known:
            continue
        form = form_of(case)
        forms[form] = forms.get(form, True) and agrees(wanted, got[case])
    known = [
        case.expression
        for case, wanted in expected.items()
        if case.is_known and not agrees(wanted, got[case])
    ]
    understood: dict[str, Any] = {
        "differences": known, "builtins": {}, "methods": dict(CLOCK), "modules": {},
    }  # fmt: skip
    for name, forms in names.items():
        good = [form for form, is_good in forms.items() if is_good]
        if not good:
            continue
        calls = [form for form in good if form is not None]
        entry: dict[str, Any] = {
            "positional": sorted({number for number, _ in calls}),
            "keywords": sorted({word for _, words in calls for word in words}),
        }
        entry = {key: value for key, value in entry.items() if value}
        if name in VARIADIC:
            entry["more"] = True
        if name in ANY_WORDS:
            entry["any_keywords"] = True
        owner, _, member = name.rpartition(".") if name.startswith(INNER) else name.partition(".")
        if owner == "builtins":
            understood["builtins"][member] = entry
        elif owner[0].isupper() or owner in METHOD_OWNERS:
            understood["methods"][name.replace("Datetime.", "datetime.")] = entry
        else:
            understood["modules"].setdefault(owner, {})[member] = entry
    return understood


INNER = ("urllib.parse.", "os.path.")
"""How the members of modules inside others begin."""
VARIADIC = (
    "builtins.print", "builtins.max", "builtins.min", "builtins.zip", "builtins.map", "str.format",
    "itertools.chain", "itertools.product", "itertools.zip_longest", "math.gcd", "math.lcm",
    "set.union", "set.intersection", "set.difference", "operator.itemgetter", "operator.attrgetter",
    "Match.group", "functools.partial", "os.path.join", "heapq.merge", "operator.methodcaller",
    "pathlib.PurePosixPath", "pathlib.PurePath", "pathlib.Path", "PurePath.joinpath",
)  # fmt: skip
"""What takes any number of further arguments."""
ANY_WORDS = (
    "builtins.dict", "str.format",
    "Template.substitute", "Template.safe_substitute",
    "dict.update", "collections.Counter", "functools.partial",
)  # fmt: skip
"""What takes arguments of any name."""
CLOCK: Mapping[str, Any] = {
    "date.today": {"positional": [0]},
    "datetime.now": {"positional": [0, 1], "keywords": ["tz"]},
    "datetime.utcnow": {"positional": [0]},
}
"""What reads the moment that a program is given; tests compare it."""
METHOD_OWNERS = (
    "str", "bytes", "list", "tuple", "dict", "set", "frozenset", "int", "float", "date", "time", "timedelta",
    "deque", "defaultdict",
)  # fmt: skip


def agrees(wanted: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
    """Whether the executor gave what CPython gave; lines are compared where both have one."""
    if "raises" in wanted:
        return wanted["raises"] == got.get("raises") or (
            wanted["raises"] in ("RecursionError", "MemoryError")
            and str(got.get("raises")).startswith("limit")
        )
    return wanted == got


def programs() -> list[str]:
    """The programs of several lines."""
    _, *found = (FOLDER / "programs.txt").read_text(encoding="utf-8").split("\n----\n")
    return [one.strip("\n") + "\n" for one in found]
