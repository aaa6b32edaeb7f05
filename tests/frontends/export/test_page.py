"""The page on constrained answers: its Python prints what it shows, its plan is a sentence."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from benchmarks.grammars.matching import Matcher

from callsheet.frontends.export import ExportOptions, ToolShape, plan_lark

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "constrained.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_example_prints_documented_output() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block("python"), "docs/constrained.md", "exec"), {"__name__": "page"})
    assert printed.getvalue() == block("text")


def test_plan_is_sentence_of_grammar() -> None:
    fields = {"path": {"type": "string"}, "limit": {"type": "integer"}}
    tool = ToolShape("read_file", {"type": "object", "properties": fields, "required": ["path"]})
    matcher = Matcher(plan_lark([tool], ExportOptions(operations=frozenset({"LLM_SUMMARIZE"}))))
    assert matcher.takes(block("ltp").rstrip("\n"))
