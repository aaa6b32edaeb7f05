"""The JSON plan in a model's answer, whatever stands around it.

In: an answer. Out: its plan, or diagnostics: those of the JSON plan, or PLN010 where there is none.
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
"""How many opening braces are looked behind."""
_EXCERPT = 80


def read_graph_answer(answer: object, name: str = _NAME) -> ParseResult:
    """The plan of dependencies that an answer holds; `name` is what diagnostics call it.

    Fences, prose and objects around the plan are left out. Of several plans the first counts, one
    within a fence before one without.

    >>> read_graph_answer('Here it is:\\n```json\\n{"title": "t", "steps": []}\\n```').plan.title
    't'
    """
    text = answer if isinstance(answer, str) else ""
    parts = [part for part in (*_fenced(text), text) if '"steps"' in part]
    for part in parts:
        found = next(_plans_in(part), None)
        if found is not None:
            return parse_dag(found, name)
    for part in parts:
        if "{" in part:
            return parse_dag(part[part.index("{") :].strip(), name)  # broken: the reader says where
    return _no_plan(text, name)


def _fenced(text: str) -> list[str]:
    """What stands within fences of Markdown; the last one may be open."""
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
    """The texts of the objects with `steps`, an outer one before those within it."""
    decoder = json.JSONDecoder()
    tries, at = 0, text.find("{")
    while at >= 0 and tries < _MOST_TRIES:
        tries += 1
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            if isinstance(found, dict) and "steps" in found:
                yield text[at:end]
                at = end - 1
        at = text.find("{", at + 1)


def _no_plan(text: str, name: str) -> ParseResult:
    begins = " ".join(text.split())[:_EXCERPT]
    said = f"it begins {json.dumps(begins, ensure_ascii=False)}" if begins else "it is empty"
    wrong = Diagnostic(
        "PLN010",
        Severity.ERROR,
        f"the model's answer holds no JSON plan: {said}",
        help="say the goal more exactly, or try another model",
    )
    return ParseResult(None, Plan((), Order.DAG), (wrong,), Source(name, text))
