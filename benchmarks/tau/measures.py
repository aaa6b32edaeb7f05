"""What is counted in the text of a plan: statements, the longest lookup, bodies that are copied."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

PLANS = Path(__file__).with_name("plans")
NAME = re.compile(r"([a-z]+)_(\d+)")
_DECLARES = re.compile(r"\s*(?:#|TYPE |INPUT |USE |PLAN |\}\s*(?:$|ELSE \{|ON_FAIL \{|> )|$)")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def numbered(plans: Path = PLANS) -> list[Path]:
    """The plans for tasks in a folder, by domain and number."""
    paths = [path for path in plans.glob("*.ltp") if NAME.fullmatch(path.stem)]
    return sorted(paths, key=lambda path: (path.stem.split("_")[0], int(path.stem.split("_")[1])))


def statements(text: str) -> list[str]:
    """The statements of a text, each on one line: without comments, declarations and ends of blocks."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth > 0:
            lines[-1] += line.strip()
        else:
            lines.append(line)
        bare = _TEXT.sub("", line)
        depth += sum(bare.count(c) for c in "([") - sum(bare.count(c) for c in ")]")
    return [line.strip() for line in lines if not _DECLARES.match(line)]


def longest_lookup(text: str) -> int:
    """The characters of the longest comprehension: what joins lists or finds something in one."""
    longest = 0
    for statement in statements(text):
        opened: list[int] = []
        for at, char in enumerate(_TEXT.sub(lambda found: "x" * len(found[0]), statement)):
            if char in "[{(":
                opened.append(at)
            elif char in "]})" and opened:
                part = statement[opened.pop() : at + 1]
                if char != ")" and re.match(r"[\[{][^\[\]]*? for \w+(?:, \w+)? in ", part):
                    longest = max(longest, len(part))
    return longest


def copied(text: str) -> list[tuple[str, str]]:
    """The pairs of successive statements that a plan has more than once."""
    pairs = list(pairwise(statements(text)))
    return sorted({pair for pair in pairs if pairs.count(pair) > 1})
