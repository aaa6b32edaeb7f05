"""Checks the block that an agent returns, and determines the confidence of its new facts.

In: the block that the agent received, and the text of the one it returns. Out: a `Reply`, which has the
errors of the block; nothing is raised.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.confidence import is_blocked, is_flagged, lowest, needs_review
from callsheet.trace.lctl.fences import CutOff, NoBlock, block_of
from callsheet.trace.lctl.findings import Finding
from callsheet.trace.lctl.ids import shown_ids
from callsheet.trace.lctl.model import Body, Handoff

MOST_STATED = 0.85
"""The highest confidence that an agent can state for its own results."""
_IGNORED = frozenset({"X07", "X09", "V05"})
"""Rules that are no errors of a reply: the caller still has facts that the agent does not repeat, and facts
below 0.40 are in `Reply.blocked`."""
_FENCE_END = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(\n|$)")
_FENCE_START = re.compile(r"[ \t]*(`{3,}|~{3,})[^\n]*\n$")


class Reply(NamedTuple):
    """A returned block. `confidence` is the lowest of its new facts, at most 0.85.

    It is None after an error, without new facts, and if that of a new fact is unknown.

    `flagged`, `review` and `blocked` are facts by their effective confidence; `errors` are its errors.
    """

    confidence: float | None
    facts: int
    flagged: tuple[str, ...]
    review: tuple[str, ...]
    blocked: tuple[str, ...]
    errors: tuple[Finding, ...]

    def describe(self) -> str:
        """A summary in one line."""
        if self.errors:
            rules = ", ".join(dict.fromkeys(finding.rule for finding in self.errors))
            return f"its block is rejected: {rules}: {self.errors[0].message}"
        parts = [f"{self.facts} fact{'' if self.facts == 1 else 's'}"]
        for what, ids in (("flagged", self.flagged), ("to review", self.review), ("blocked", self.blocked)):
            parts += [f"{what} {shown_ids(ids)}"] if ids else []
        return "; ".join(parts)


def reply_to(handed: Handoff | None, text: str) -> Reply:
    """Check the text that an agent returns for a hand-off.

    >>> text = "lctl: '3.0'\\nchain: {id: r, step: 2, from: a, to: b}\\ninstruction: ok\\n"
    >>> reply_to(None, text + "facts: {A1: {text: it rains, confidence: 0.97}}").confidence
    0.85
    """
    report = check([text] if handed is None else [handed, text])
    place = len(report.readings) - 1
    document = report.documents[place]
    errors = tuple(f for f in report.of(place) if f.is_error and f.rule not in _IGNORED)
    if not isinstance(document, Body):
        return Reply(None, 0, (), (), (), errors or (Finding("P09", place, "it is not a hand-off"),))
    values = report.hops[place].effective
    new = [fact for fact in document.facts if handed is None or fact not in handed.facts]
    confidence = lowest(values[fact] for fact in new)
    listed = [fact for fact in document.handed_on if fact in values]
    return Reply(
        None if errors or confidence is None else min(confidence, MOST_STATED),
        len(document.facts),
        tuple(fact for fact in document.critical if fact in values and is_flagged(values[fact])),
        tuple(fact for fact in listed if needs_review(values[fact])),
        tuple(fact for fact in listed if is_blocked(values[fact])),
        errors,
    )


def parted(text: str) -> tuple[str, str]:
    """An answer without its fenced block, and the block; "" if it has none.

    >>> parted("It rains.\\n```yaml\\nlctl: '3.0'\\n```\\n")
    ('It rains.', "lctl: '3.0'\\n")
    >>> parted("It rains.")
    ('It rains.', '')
    """
    if "lctl" not in text:
        return text, ""
    try:
        block = block_of(text)
    except (CutOff, NoBlock):
        return text, ""
    start = len(block) - len(block.lstrip(" \n\t"))
    before = text[: text.rfind("\n", 0, start) + 1]
    opener = _FENCE_START.search(before)
    closer = _FENCE_END.match(text, len(block))
    if opener is None or closer is None:  # the whole text is a document, not an answer that contains one
        return text, ""
    return f"{before[: opener.start()]}{text[closer.end() :]}".strip(), text[len(before) : len(block)]
