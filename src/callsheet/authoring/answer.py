"""The plan in a model's answer."""

from __future__ import annotations

from callsheet.frontends.ltp import ParseResult, parse


def read_answer_plan(answer: object) -> ParseResult:
    """The plan that an answer holds, or the diagnostics that say why it holds none."""
    return parse(answer if isinstance(answer, str) else "", "<model>")
