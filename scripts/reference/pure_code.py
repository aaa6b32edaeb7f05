"""The page that lists what pure Python code may call, from the table of its front end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).parents[2] / "src/callsheet/frontends/pure_code/understood.json"


def pure_code_page() -> str:
    """Tables of builtins, methods and members of modules, and the calls that differ from CPython's."""
    understood: Mapping[str, Any] = json.loads(TABLE.read_text("utf-8"))
    methods: dict[str, list[str]] = {}
    for name in understood["methods"]:
        owner, _, method = name.partition(".")
        methods.setdefault(owner, []).append(method)
    rows = [("builtins", sorted(understood["builtins"]))]
    rows += [(f"methods of {owner}", sorted(names)) for owner, names in sorted(methods.items())]
    rows += [(f"`{module}`", sorted(names)) for module, names in sorted(understood["modules"].items())]
    rows.append(
        (
            "also",
            ["dataclass", "field", "asdict", "astuple", "fields", "replace", "typing", "collections.abc"],
        )
    )
    lists = "\n".join(f"| {what} | `{' '.join(names)}` |" for what, names in rows)
    differences = "\n".join(f"- `{one}`" for one in understood["differences"])
    return (
        "# What pure code may call\n\n"
        "Generated from the table of the front end. [Pure Python code](../pure-code.md) may call these, in "
        "the forms that were compared with CPython 3.12; a call in another form is refused, and the error "
        "names the forms that there are.\n\n"
        f"| of | there is |\n|---|---|\n{lists}\n\n"
        f"The results of these differ from CPython's:\n\n{differences}\n"
    )
