"""The pages of the codes of version 2: their bad examples give the code, their good ones nothing."""

import re

import pytest

from callsheet.diagnostics import CODES, explain
from callsheet.frontends.structured import read_structured
from callsheet.ir import Effect
from callsheet.passes import ToolSignature, check

CODES_OF_TREES = sorted(code for code in CODES if code.startswith("CHK1"))
WITHOUT_PLANS = {"CHK106", "CHK108", "CHK112", "CHK113"}
"""Told by the reader of texts, in thousands of steps, or of the inverses of tools, which no signature has."""
CATALOGUE = {
    "READ_FILE": ToolSignature.from_schema({"properties": {"path": {"type": "string"}}}),
    "SELECT": ToolSignature(("data", "query"), frozenset({"data", "query"})),
    "FORECAST": ToolSignature.from_schema({"properties": {"city": {"type": "string"}}}, Effect.READ),
    "LIST_PUPILS": ToolSignature.from_schema({"properties": {}}, Effect.READ),
    "ENROL": ToolSignature.from_schema({"properties": {"pupil": {}}}),
    "HALL_BOOKING": ToolSignature.from_schema({"properties": {"day": {"type": "string"}}}, Effect.READ),
    "BOOK_HALL": ToolSignature.from_schema({"properties": {"day": {"type": "string"}}}),
    "CANCEL_EVENT": ToolSignature.from_schema({"properties": {"event_id": {"type": "string"}}}),
}


def _codes(text: str) -> set[str]:
    read = read_structured(text)
    assert read.plan is not None, read.diagnostics
    assert read.diagnostics == ()
    return {one.code for one in check(read.plan, tools=CATALOGUE)}


@pytest.mark.parametrize("code", CODES_OF_TREES)
def test_examples_of_the_page(code: str) -> None:
    page = explain(code) or ""
    assert "\n## Example\n" in page
    assert "\n## Repair\n" in page
    examples = re.findall(r"```ltp\n(.*?)```", page, re.DOTALL)
    assert len(examples) == (0 if code in WITHOUT_PLANS else 2)
    for text, codes in zip(examples, ({code}, set[str]()), strict=False):
        assert _codes(text) == codes


MESSAGES = """\
# ltp: 2
# goal: Answer urgent tickets, file the rest
INPUT $box: str = "inbox"            # the folder to read
S1: @LIST_MESSAGES (folder=$box) > $messages
REQUIRE (len($messages) < 500) "more than 500 messages: narrow the folder"
S2: ?FOREACH ($m IN $messages) {
  LET $age = now() - datetime($m.received)
  S3: @LLM_CLASSIFY ($m.body, categories=["urgent", "other"]) > $kind
  S4: ?IF ($kind == "urgent" and $age < duration("2d")) {
    S5: @REPLY (to=$m.sender, text="We are on it: ${m.subject}") > $sent ON_FAIL @RETRY(2)
  } ELSE {
    S6: @FILE (id=$m.id, into="archive")
  }
  YIELD ({"id": $m.id, "kind": $kind})
} > $rows
S7: ?REPEAT (max=30, every="10s") {
  S8: @JOB_STATUS (id="nightly") > $job
} UNTIL ($job.state != "running")
S9: @RESPOND ("${len($rows)} messages, urgent: ${[r.id for r in $rows if r.kind == 'urgent']}")
"""
_TEXT = {"type": "string"}
_MESSAGE = {
    "type": "object",
    "properties": {"received": _TEXT, "body": _TEXT, "sender": _TEXT, "subject": _TEXT, "id": _TEXT},
}
TOOLS = {
    "LIST_MESSAGES": ToolSignature.from_schema(
        {"properties": {"folder": _TEXT}}, result={"type": "array", "items": _MESSAGE}
    ),
    "FILE": ToolSignature.from_schema({"properties": {"id": _TEXT, "into": _TEXT}}),
    "REPLY": ToolSignature.from_schema({"properties": {"to": _TEXT, "text": _TEXT}}),
    "JOB_STATUS": ToolSignature.from_schema({"properties": {"id": _TEXT}}),
}


@pytest.mark.parametrize(
    ("right", "wrong", "code", "place"),
    [
        ("", "", None, None),
        ("$m.received", "$m.recieved", "CHK120", "$m.recieved"),
        ("r.kind", "r.knd", "CHK120", "r.knd"),
        ("$job.state", "$jb.state", "CHK001", "$jb"),
        ('== "urgent"', '== "urgnt"', "CHK121", '$kind == "urgnt"'),
        ('duration("2d")', "2", "CHK121", "$age < 2"),
        ("id=$m.id", "id=$m", "CHK044", "$m"),
        ("@FILE", "@FLIE", "CHK040", None),
        ("(folder=$box)", "(fold=$box)", "CHK041", "$box"),
        ("LET $age", "LET $box", "CHK101", None),
        ('YIELD ({"id"', 'YIELD ({"idd"', "CHK120", "r.id"),
    ],
)
def test_each_mistake_in_a_plan_is_found_at_its_place(
    right: str, wrong: str, code: str | None, place: str | None
) -> None:
    text = MESSAGES.replace(right, wrong)
    read = read_structured(text)
    assert read.plan is not None
    found = [one for one in check(read.plan, tools=TOOLS) if code is not None or one.is_error]
    if code is None:
        assert found == []
        return
    assert code in {one.code for one in found}
    spans = [one.span for one in found if one.code == code]
    assert place is None or any(span is not None and text[span.start : span.end] == place for span in spans)
