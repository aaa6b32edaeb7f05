"""Lists the differences between two policies, part by part, in their canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from callsheet.policy.canon import policy_to_json
from callsheet.policy.model import Policy

_LONGEST = 80


class Difference(NamedTuple):
    """A part that differs; `before` and `now` are JSON data, None if the part is absent."""

    part: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.part}: {_shown(self.before)} → {_shown(self.now)}"


def differences(before: Policy, now: Policy) -> tuple[Difference, ...]:
    """All differences except in the protected files, by the path of the part; empty for equal policies.

    >>> [str(d) for d in differences(Policy(), Policy(exec_network=True, max_steps=5))]
    ['exec_network: false → true', 'max_steps: none → 5']
    """
    data = policy_to_json(replace(before, files=())), policy_to_json(replace(now, files=()))
    return tuple(_between("", *data))


def is_of(bound: Policy, policy: Policy) -> bool:
    """Whether a policy that was bound to tools is `policy`, whatever steps are approved and files protected.

    Binding replaces the names of servers' tools, so the parts of the policy are compared without these names.

    >>> is_of(Policy(approved=frozenset({"S1"})), Policy()), is_of(Policy(exec_network=True), Policy())
    (True, False)
    """
    if not all(rule in policy.tools.values() for rule in bound.tools.values()):
        return False
    if not _plain_names(policy.denied_tools) <= bound.denied_tools or bound.declassify - policy.declassify:
        return False
    return _without_names(bound) == _without_names(policy)


def _plain_names(names: Iterable[str]) -> frozenset[str]:
    """The names that binding keeps."""
    return frozenset(name for name in names if not name.startswith("mcp:"))


def _without_names(policy: Policy) -> Policy:
    agent = policy.agent
    return replace(
        policy,
        tools={},
        denied_tools=frozenset(),
        allowed_tools=None if policy.allowed_tools is None else frozenset(),
        agent=None if agent is None else replace(agent, tools=(), arguments={}),
        rules=tuple(dict.fromkeys(replace(rule, tool="") for rule in policy.rules)),
        approved=frozenset(),
        declassify=frozenset(),
        files=(),
    )


def _between(part: str, before: Any, now: Any) -> Iterator[Difference]:
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", now)
        for name in (*old, *(name for name in new if name not in old)):
            yield from _between(f"{part}.{name}" if part else name, old.get(name), new.get(name))
        return
    old_rows, new_rows = _by_name(before), _by_name(now)
    if old_rows is not None and new_rows is not None:
        yield from _between(part, old_rows, new_rows)
        return
    yield Difference(part, before, now)


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """The members of a list of audiences, sources or rules by name; None for any other value."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    rows = [
        cast("Mapping[str, Any]", row) for row in cast("Sequence[Any]", value) if isinstance(row, Mapping)
    ]
    if len(rows) != len(cast("Sequence[Any]", value)) or not rows:
        return None
    named = {
        str(row["name"])
        if "name" in row
        else f"{row.get('kind', row.get('tool'))}:{row.get('pattern', '')}": row
        for row in rows
    }
    return named if len(named) == len(rows) else None


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
