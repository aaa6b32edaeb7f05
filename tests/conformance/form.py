"""The form of a case: one JSON object per line, with long texts abbreviated.

In: a file of cases. Out: `Case` objects with all texts expanded, or `BadCase` with the malformed line. What
a case expects stays a dict: the checks know its keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("parse", "validate", "verify", "mermaid", "micro", "run")


class BadCase(Exception):
    """An invalid line in a file of cases."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a plan, the world it meets, and what must come of it.

    `plan` is LTP text; for kind `micro` it is what the scripted model answers, which may be a
    failure. `policy` is what a plan is verified against, `has_policy` whether the case names one.
    `timeout` is in seconds of CPU time.
    """

    id: str
    area: str
    kind: str
    plan: Any
    expect: Mapping[str, Any]
    tools: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    llm: list[Any] = field(default_factory=list)
    agent: list[Any] | None = None
    policy: Mapping[str, Any] | None = None
    has_policy: bool = False
    basis: str = ""
    spec: str = ""
    goal: str = "do the task"
    context: str | None = None
    namespace: str | None = None
    max_replans: int | None = None
    progress: bool = False
    timeout: float = 6
    call_limit: int = 5000


FIELDS = frozenset(Case.__dataclass_fields__) - {"has_policy"}
"""What a case is read from; other fields of a line are remarks."""

_NEEDED = ("id", "area", "kind", "plan", "expect")


def read_cases(path: Path) -> list[Case]:
    """All cases of a file; raises BadCase, or OSError for a file that cannot be read."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            try:
                cases.append(case_of(json.loads(line)))
            except (ValueError, BadCase) as error:
                raise BadCase(f"{path}, line {number}: {error}") from None
    return cases


def case_of(data: Any) -> Case:
    """The case that an object of the file describes."""
    if not isinstance(data, dict):
        raise BadCase("a case is a JSON object")
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise BadCase(f"a case has {', '.join(missing)}")
    if data["kind"] not in KINDS:
        raise BadCase(f"case {data['id']} is of kind {data['kind']!r}; the kinds are {', '.join(KINDS)}")
    known = {name: value for name, value in data.items() if name in FIELDS}
    return Case(**written_out(known), has_policy="policy" in data)


def written_out(value: Any) -> Any:
    """A value with its short texts written out.

    >>> written_out({"$repeat": "ab", "n": 2})
    'abab'
    >>> written_out({"$join": ["<", {"$lines": "S{i} after S{p}", "from": 2, "to": 3}, ">"]})
    '<S2 after S1\\nS3 after S2>'
    """
    match value:
        case {"$repeat": text, "n": times}:
            return text * times
        case {"$lines": line, "from": first, "to": last}:
            numbers = range(first, last + 1)
            return "\n".join(line.replace("{i}", str(n)).replace("{p}", str(n - 1)) for n in numbers)
        case {"$join": parts}:
            return "".join(written_out(part) for part in parts)
        case dict():
            return {key: written_out(item) for key, item in value.items()}
        case list():
            return [written_out(item) for item in value]
        case _:
            return value
