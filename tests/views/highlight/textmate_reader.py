"""Applies a TextMate grammar as editors do: line by line, first match wins, regions nest.

It supports the part of the format that the grammar uses: `match` with `name` or `captures`, `begin` and
`end`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def scopes(grammar: dict[str, Any], text: str) -> list[str]:
    """The name of the innermost scope of each character, empty if there is none."""
    out: list[str] = []
    stack: list[dict[str, Any]] = [grammar]
    for line in text.splitlines(keepends=True):
        out += _line(stack, line)
    return out


def _line(stack: list[dict[str, Any]], line: str) -> list[str]:
    names = [""] * len(line)
    pos = 0

    def paint(start: int, end: int, name: str) -> None:
        names[start:end] = [name] * (end - start)

    while pos <= len(line):
        top = stack[-1]
        found = []
        if "end" in top:
            match = _compiled(top["end"]).search(line, pos)
            if match is not None:
                found.append((match.start(), -1, match, None))
        for number, rule in enumerate(top.get("patterns", ())):
            match = _compiled(rule.get("match") or rule["begin"]).search(line, pos)
            if match is not None:
                found.append((match.start(), number, match, rule))
        if not found:
            paint(pos, len(line), top.get("name", "") if "end" in top else "")
            return names
        start, _, match, rule = min(found, key=lambda item: item[:2])
        paint(pos, start, top.get("name", "") if "end" in top else "")
        if rule is None:
            name = top.get("endCaptures", {}).get("0", {}).get("name", top.get("name", ""))
            paint(start, match.end(), name)
            stack.pop()
        else:
            captures = rule.get("captures") or rule.get("beginCaptures") or {}
            paint(start, match.end(), rule.get("name", ""))
            for group, about in captures.items():
                if match[int(group)] is not None:
                    paint(*match.span(int(group)), about["name"])
            if "begin" in rule:
                stack.append(rule)
        if match.end() == pos and rule is not None:
            raise AssertionError(f"a rule matches nothing: {rule}")
        if match.end() == len(line) and pos == len(line):
            return names
        pos = match.end()
    return names
