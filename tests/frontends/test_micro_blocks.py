"""Micro-CLI of version 2: blocks with verbs and bare names, and what models write instead."""

import pytest
from hypothesis import given, settings
from tests.growth import seconds
from tests.structured_plans import programs, trees

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.frontends.structured import format_structured
from callsheet.ir import Plan

HEAD = "# ltp: 2\n"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('search "tea" > hits', '@WEB_SEARCH (query="tea") > $hits'),
        ("let n = len(hits) + 1", "LET $n = len($hits) + 1"),
        ("set n = n + 1", "SET $n = $n + 1"),
        ('set "k" n', '@SET_WM (key="k", value=$n)'),
        ('classify hits "a,b" > kind', '@LLM_CLASSIFY ($hits, categories=["a", "b"]) > $kind'),
        ('my_tool hits[0].id -3 [1, n] mode="x" on_fail continue',
         '@MY_TOOL ($hits[0].id, -3, [1, $n], mode="x") ON_FAIL CONTINUE'),
        ('if n > 3 and not hits {\nrespond "a $n" hits\n} else if n == 2 {\nterminate "no"\n'
         "} else {\nnote n\n}",
         '?IF ($n > 3 and not $hits) {\n  @RESPOND ("a ${n}", $hits)\n} ELSE IF ($n == 2) {\n'
         '  TERMINATE ("no")\n} ELSE {\n  NOTE ($n)\n}'),
        ("foreach h in hits limit 2 {\nread h.path > page\nyield page\n} > pages on_fail skip",
         "?FOREACH ($h IN $hits) LIMIT 2 {\n  @READ_FILE (path=$h.path) > $page\n  YIELD ($page)\n"
         "} > $pages ON_FAIL SKIP"),
        ("if n > 3 : respond n", "?IF ($n > 3) THEN @RESPOND ($n)"),
        ('@WEB_SEARCH (query="tea") > $hits', '@WEB_SEARCH (query="tea") > $hits'),
    ],
)  # fmt: skip
def test_commands_and_blocks(text: str, printed: str) -> None:
    around = "INPUT $hits: json\nINPUT $n: int\n"
    read = parse_micro(HEAD + around + text)
    assert not read.diagnostics
    assert format_structured(read.require()) == f"{HEAD}{around}{printed}\n"


@pytest.mark.parametrize(
    ("text", "printed", "code"),
    [
        ('r = search "q"', '@WEB_SEARCH (query="q") > $r', "LTP106"),
        ('r = search "q"\nrespond r', '@WEB_SEARCH (query="q") > $r\n@RESPOND ($r)', "LTP106"),
        ('let r = search "q"', '@WEB_SEARCH (query="q") > $r', "LTP106"),
        ('LET $r = search "q"\nlet n = len(r)', '@WEB_SEARCH (query="q") > $r\nLET $n = len($r)', "LTP106"),
        ('search("q") > r', '@WEB_SEARCH (query="q") > $r', "LTP115"),
        ('search "q" > r;', '@WEB_SEARCH (query="q") > $r', "LTP116"),
        ("read notes.txt > r", '@READ_FILE (path="notes.txt") > $r', "MIC103"),
        (
            "note \"a $n $rows.0.by[-1]['k'].title[x]. $n[n]\"",
            "NOTE (\"a ${n} ${rows[0].by[-1]['k'].title}[x]. ${n}[n]\")",
            "LTP119",
        ),
    ],
)
def test_what_models_write_is_read_with_a_hint_and_a_fix(text: str, printed: str, code: str) -> None:
    read = parse_micro(HEAD + text)
    (hint,) = read.diagnostics
    assert (hint.code, hint.is_error) == (code, False)
    assert hint.fix is not None
    assert format_structured(read.require()) == f"{HEAD}{printed}\n"


@pytest.mark.parametrize(
    ("text", "code", "taught"),
    [
        ('search "q" > r\nrespond "a {r}"', "LTP030", "write ${r}"),
        ('serch "q" > r', "MIC012", "did you mean search?"),
        (
            'search "q" > r\nrespond "x" if $r',
            "MIC017",
            "write a condition before its command: if … { respond … }; put a text in quotes",
        ),
        ('search "a" "b"', "MIC013", 'write search "what to look for"'),
        ('write path="a" "b"', "LTP026", None),
        (
            'search "q" > r\nif r: note 1\nelse: note 2',
            "LTP205",
            "ELSE follows the } of its block, or the statement that it is about, on the same line",
        ),
    ],
)
def test_mistakes(text: str, code: str, taught: str | None) -> None:
    (told,) = parse_micro(HEAD + text).diagnostics
    assert (told.code, told.help) == (code, taught)


def test_a_text_without_the_header_is_version_1() -> None:
    assert parse_micro('search "tea" > hits\nrespond hits').require().tree is None


def test_time_is_linear_in_the_number_of_commands() -> None:
    short, long = (HEAD + 'search "tea" > hits\n' * size for size in (500, 8_000))
    times = ((seconds(lambda: parse_micro(long)), seconds(lambda: parse_micro(short))) for _ in range(3))
    assert any(of_long < 60 * of_short + 0.1 for of_long, of_short in times)


@settings(max_examples=30, deadline=None)
@given(trees() | programs(stops=True))
def test_a_plan_that_is_printed_is_read_as_itself(plan: Plan) -> None:
    """Also as Micro-CLI, which reads all of LTP text but a name in literal braces."""
    text = format_structured(plan)
    read = parse_micro(text)
    if any(one.code == "LTP030" for one in read.diagnostics):
        with pytest.raises(CallsheetError, match="MIC070"):
            format_micro(plan)
    else:
        assert read.require() == plan
        assert format_micro(plan) == text
