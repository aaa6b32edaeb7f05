"""The form of a case of the area `lctl`: documents in the order of their chain, and their findings."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.form import BadCase

_NEEDED = ("id", "area", "expect")
_GIVEN = ("docs", "docs_b64", "docs_gen")


@dataclass(frozen=True, slots=True)
class LctlCase:
    """One case. `docs` are its documents in order; `topology` the parents of those that do not follow
    the one before; `mode` is empty, or `diff` of the first two documents."""

    id: str
    area: str
    docs: tuple[str | bytes, ...]
    expect: Mapping[str, Any]
    topology: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    mode: str = ""


def read_lctl_cases(path: Path) -> list[LctlCase]:
    """All cases of a file; raises BadCase, or OSError for a file that cannot be read."""
    cases: list[LctlCase] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            try:
                cases.append(lctl_case_of(json.loads(line)))
            except (ValueError, TypeError, KeyError, BadCase) as error:
                raise BadCase(f"{path}, line {number}: {error}") from None
    return cases


def lctl_case_of(data: Any) -> LctlCase:
    """The case that an object of the file describes."""
    if not isinstance(data, dict):
        raise BadCase("a case is a JSON object")
    missing = [name for name in _NEEDED if name not in data]
    if missing or not any(data.get(name) for name in _GIVEN):
        raise BadCase(f"a case has {', '.join(missing or ['docs'])}")
    topology = {int(place): tuple(above) for place, above in (data.get("topology") or {}).items()}
    return LctlCase(
        data["id"], data["area"], _documents(data), data["expect"], topology, data.get("mode", "")
    )


def _documents(data: Mapping[str, Any]) -> tuple[str | bytes, ...]:
    made = [
        part["prefix"] + part["repeat"] * part["times"] + part["suffix"]
        for part in data.get("docs_gen") or ()
    ]
    raw = [base64.b64decode(text) for text in data.get("docs_b64") or ()]
    return (*(data.get("docs") or ()), *raw, *made)
