"""The sentences of the specification of version 2, each with small plans that show it: `specification.md`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.machine.driving import FACTS, Bench

from callsheet.frontends.structured import format_structured, read_structured
from callsheet.machine import Status
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.passes import check

PAGE = Path(__file__).with_name("specification.md").read_text()
SENTENCES = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)+)", PAGE, re.MULTILINE))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentence(sentence: str) -> None:
    cases = re.findall(r"```ltp\n(.+?)\n((?:=>|!) [^\n]+)\n```", SENTENCES[sentence], re.DOTALL)
    assert cases
    for text, expected in cases:
        assert outcome(text) == expected, text


def outcome(text: str) -> str:
    """The answer of a plan behind `=>`, its failure or the codes of its errors behind `!`."""
    read = read_structured(f"# ltp: 2\n{text}")
    codes = [one.code for one in read.diagnostics if one.is_error]
    if read.plan is not None:
        again = read_structured(format_structured(read.plan))
        assert again.plan == read.plan
        assert not again.diagnostics
        codes = [one.code for one in check(read.plan, tools={}) if one.is_error]
    if codes or read.plan is None:
        return f"! {' '.join(codes)}"
    result = Bench(read.plan, facts={**FACTS, **OWN_FACTS}, inputs={}).result
    if result.status is not Status.DONE:
        return f"! {result.error}"
    return f"=> {json.dumps(result.answer, ensure_ascii=False)}"
