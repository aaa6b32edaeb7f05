"""Extracts the JSON plan from a model's answer.

In: an answer. Out: its plan, or diagnostics: those of the JSON plan, or PLN010 if there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from callsheet.diagnostics import Diagnostic, Severity, Source
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.values import ParseResult
from callsheet.ir import Order, Plan

_NAME = "<model>"
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_MOST_TRIES = 200
"""The most opening braces that are tried."""
_EXCERPT = 80


def read_graph_answer(answer: object, name: str = _NAME) -> ParseResult:
    """The dependency-ordered plan in an answer; `name` is its name in diagnostics.

    Fences, prose and enclosing objects are ignored. Of several plans the first counts, those in fences before
    others.

    >>> read_graph_answer('Here it is:\\n```json\\n{"title": "t", "steps": []}\\n```').plan.title
    't'
    """
    text = answer if isinstance(answer, str) else ""
    parts = [part for part in (*_fenced(text), text) if '"steps"' in part]
    for part in parts:
        result = next(_plans_in(part), None)
        if result is not None:
            return parse_dag(result, name)
    for part in parts:
        if "{" in part:
            return parse_dag(part[part.index("{") :].strip(), name)  # invalid: the parser says where
    return _no_plan(text, name)


def _fenced(text: str) -> list[str]:
    """The contents of Markdown fences; the last one may be unclosed."""
    blocks: list[str] = []
    inside: list[str] = []
    mark = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if not mark and fence is not None:
            mark, inside = fence[1], []
        elif mark and fence is not None and fence[1].startswith(mark) and not fence[2].strip():
            blocks.append("\n".join(inside))
            mark = ""
        elif mark:
            inside.append(line)
    return [*blocks, "\n".join(inside)] if mark else blocks


def _plans_in(text: str) -> Iterator[str]:
    """The texts of the JSON objects with `steps`, outer ones before nested ones."""
    decoder = json.JSONDecoder()
    tries, at = 0, text.find("{")
    while at >= 0 and tries < _MOST_TRIES:
        tries += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            if isinstance(value, dict) and "steps" in value:
                yield text[at:end]
                at = end - 1
        at = text.find("{", at + 1)


def _no_plan(text: str, name: str) -> ParseResult:
    begins = " ".join(text.split())[:_EXCERPT]
    message = f"it begins {json.dumps(begins, ensure_ascii=False)}" if begins else "it is empty"
    wrong = Diagnostic(
        "PLN010",
        Severity.ERROR,
        f"the model's answer contains no JSON plan: {message}",
        help="make the goal more precise, or try another model",
    )
    return ParseResult(None, Plan((), Order.DAG), (wrong,), Source(name, text))
