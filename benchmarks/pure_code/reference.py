"""Runs small programs on the Python that executes this file, and prints what each gives, as JSON.

Standard input: a list of `{"source": …, "outputs": […]}`. Standard output: for each the canonical text of its
outputs and of what it printed, or the class of the exception and its line. It needs no packages.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
import types
from typing import Any


def canonical(value: Any) -> str:
    """A text that is the same for equal values of equal types, whatever the order of a set."""
    kind = type(value).__name__
    if kind == "list":
        return "[" + ", ".join(map(canonical, value)) + "]"
    if kind == "tuple":
        return "(" + ", ".join(map(canonical, value)) + ",)"
    if kind in ("dict", "OrderedDict"):
        return "{" + ", ".join(f"{canonical(key)}: {canonical(item)}" for key, item in value.items()) + "}"
    if kind in ("set", "frozenset"):
        return f"{kind}{{" + ", ".join(sorted(map(canonical, value))) + "}"
    if kind in ("Counter", "defaultdict"):
        return f"{kind} {canonical(dict(value))}"
    if kind in ("NoneType", "bool", "int", "float", "str", "bytes", "date", "datetime", "time", "timedelta"):
        return repr(value)
    if kind in ("timezone", "Decimal"):
        return repr(value)
    if hasattr(value, "_asdict"):
        return f"namedtuple {canonical(tuple(value))}"
    return f"<{kind}>"


def outcome(source: str, outputs: list[str]) -> dict[str, Any]:
    """What a program gives."""
    printed = io.StringIO()
    module = types.ModuleType("plan")
    sys.modules["plan"] = module  # where dataclasses look for annotations
    names = vars(module)
    try:
        code = compile(source, "<case>", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except BaseException as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "<case>"]
        return {"raises": type(error).__name__, "line": lines[-1] if lines else None}
    values = {name: canonical(names[name]) for name in outputs if name in names}
    return {"values": values, "printed": printed.getvalue()}


if __name__ == "__main__":
    json.dump([outcome(**case) for case in json.load(sys.stdin)], sys.stdout)
