"""Every plan with blocks, as `fmt` prints it, is a sentence of the grammar for constrained decoding."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.grammars.matching import Matcher
from hypothesis import given
from tests.structured_plans import programs, trees

from callsheet.frontends.export import ToolShape, as_gbnf, as_lark, is_sentence, structured_grammar
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir import Plan

ROOT = Path(__file__).parents[3]
OPEN = structured_grammar()
READ = ToolShape("read_file", {"properties": {"path": {}, "most": {}, "max-size": {}}, "required": ["path"]})
CLOSED = structured_grammar([READ, ToolShape("now", {})], ["text", "n", "item", "e"])
CONSTRUCTS = '''# ltp: 2
# goal: all of it
TYPE Ticket = {id: int, title: str, labels: list[str]?}
INPUT $box: str = "inbox"  # the folder to read
INPUT SECRET $token: str
INPUT $kind: "bug" | "feature" = "bug"
RESULT str
USE other FROM LIBRARY "other@3"
PLAN triage ($t: Ticket, $short: bool = False) -> str {
  ?IF ($short) THEN RETURN ($t.title)
  RETURN ("${t.id}: ${t.title?}")
}
S1: @LIST_MESSAGES (folder=$box) > $messages:list[Ticket] ON_FAIL @RETRY(3, delay=2, backoff=2) USE ([])
REQUIRE (len($messages) < 500) "more than 500 messages: narrow the folder"
S2: ?FOREACH ($m IN $messages) TOGETHER STOP AS DONE MAX 5 LIMIT 10 {
  LET $age: duration = now() - datetime($m.received)
  CALL triage (t=$m) > $answer ON_FAIL TOOL, TIMEOUT AS $why {
    NOTE ("${$why.message ?? 'none'}: ${$age.total_seconds():.2f}")
    CONTINUE
  } ON_FAIL DENIED {
    FAIL ("no", kind="own")
  } FINALLY {
    BREAK
  }
  ?IF ($m.kind == "urgent" and $age < duration("2d")) {
    @REPLY (to=$m.sender, text="We are on it: ${m.subject}") ON_FAIL CONTINUE
  } ELSE IF (match(r"\\d+", $m.subject) is not None) {
    WAIT ("10s")
  } ELSE {
    SET $n = [x for x, (y, z) in enumerate($m) if x if not y]
  }
  YIELD ({"id": $m.id, **1} if False else sorted($m, key=lambda a: -a, reverse=True)[1:][0]?)
} > $rows ON_FAIL SKIP
S7: ?REPEAT (max=30, every="10s") {
  @JOB_STATUS > $job
} UNTIL ($job.state != "running")
?REPEAT (max="run") WHILE ($n < 3) {
}
TRY WITHIN ("30s") {
  @PARALLEL STOP {
    ?FOREACH ($k IN $rows) IN ORDER {
    }
    ?FOREACH ($k IN $rows) TOGETHER FIRST {
    }
  }
} ON_FAIL UNDO (add="remove(id=result.id)") ON_FAIL @RETRY(2)
COMPUTE (reads=[$rows]) > $total, $names """
  total = sum(row["size"] for row in rows)
  """
@SELECT ($rows, query="[?name == $n]", n=$total) > $x
RE-PLAN ("go on")
TERMINATE ("${len($rows)} messages")
@RESPOND ("""
  Dear ${box},
  hello
  """)
'''


def _printed(text: str) -> str:
    return format_structured(read_structured(text).require())


def test_every_construct_of_the_language_is_in_the_grammar() -> None:
    text = _printed(CONSTRUCTS.replace(", **1}", "}"))
    for word in ("STOP AS DONE MAX 5 LIMIT", "WITHIN", "@PARALLEL STOP", "TOGETHER FIRST", "IN ORDER"):
        assert word in text
    assert is_sentence(OPEN, text)


@given(trees())
def test_every_plan_is_a_sentence(plan: Plan) -> None:
    text = format_structured(plan)
    assert is_sentence(OPEN, text), text


@given(programs(stops=True))
def test_every_program_is_a_sentence(plan: Plan) -> None:
    assert is_sentence(OPEN, format_structured(plan))


def test_the_examples_are_sentences() -> None:
    texts = [path.read_text("utf-8") for path in sorted(ROOT.glob("examples/**/*.ltp"))]
    printed = [_printed(text) for text in texts if text.startswith("# ltp: 2")]
    assert len(printed) > 3
    assert not [text for text in printed if not is_sentence(OPEN, text)]


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ('@READ_FILE (path="a") > $text', True),
        ('@READ_FILE (path="a", "max-size"=3)', True),
        ("@NOW > $n", True),
        ("?FOREACH ($item IN [1]) TOGETHER FIRST {\n  @NOW\n}", True),
        ("@READ_FILE", False),
        ('@READ_FILE (most=3, path="a")', False),
        ('@READ_FILE (path="a", least=3)', False),
        ("@NOW (n=1)", False),
        ("@LOAD", False),
        ("LET $other = 1", False),
        ("?FOREACH ($item IN [1]) TOGETHER LAST {\n}", False),
        ("TRY WITHIN {\n}", False),
        ("TRY {\n}", False),
        ("TRY {\n} ON_FAIL UNDO", True),
        ("TRY {\n} FINALLY {\n}", True),
        ("?IF ($n > 1) {", False),
        ("}", False),
        ("LET $n = 1 +", False),
        ('LET $n = "a', False),
        ('LET $n = "\\d"', False),
        ("S1.: @NOW", False),
        ("@NOW ON_FAIL @RETRY(2) ON_FAIL {\n} FINALLY {\n}", True),
        ("@NOW ON_FAIL SKIP ON_FAIL {\n}", False),
        ("@NOW ON_FAIL @RETRY(1.5)", False),
        ("RETURN\nRETURN (1)\nBREAK\nWAIT (1)", True),
        ("BREAK (1)", False),
        ("WAIT", False),
        ("RETURN (1, 2)", False),
        ("FAIL", False),
        ("# a comment alone", False),
        ("RESULT 1.5\n@NOW", False),
    ],
)
def test_no_other_tool_argument_name_or_block_is_in_it(line: str, holds: bool) -> None:
    assert is_sentence(CLOSED, f"# ltp: 2\n{line}\n") == holds


def test_decoders_take_the_grammar() -> None:
    matcher = Matcher(as_lark(CLOSED))
    text = _printed(
        '# ltp: 2\nTRY WITHIN (5) {\n  @READ_FILE (path="a ${n}") > $text\n} ON_FAIL TIMEOUT {\n}\n'
        "@RESPOND ($text)\n"
    )
    assert matcher.takes(text)
    assert not matcher.takes(text.replace("READ_FILE", "READ_FILES"))
    assert as_gbnf(CLOSED).startswith("root ::= plan\n")


ODATA = ToolShape("read", {"properties": {"$filter": {}}})


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([ToolShape("respond", {})], None),
        ([READ, ToolShape("read-file", {})], None),
        ([ODATA], None),
        ([], ["a b"]),
        ([], []),
    ],
)
def test_what_no_plan_can_call_or_name_is_refused(tools: list[ToolShape], names: list[str] | None) -> None:
    with pytest.raises(ValueError, match=r"no plan can call|two tools|is not a valid name"):
        structured_grammar(tools, names)
