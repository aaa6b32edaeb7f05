"""Loose spellings are accepted with a hint and a fix; mistakes have codes of their own."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import Diagnostic, Severity, render_all
from callsheet.frontends.ltp import parse

LOOSE = [
    "S1: GOTO(S5)",
    'S1: goto ("S5")',
    "S1: @goto S5",
    '1. S1: @respond("x")',
    "- @X (a=1) >y : INT",
    'S1: ?if $a = 1 and not $b == 2 then terminate "x", $y',
    "S1: @X () on_fail retry 3",
    "S1: @X () ON_FAIL @retry (2) ON_FAIL GOTO (S2)",
    'S1: @X () ON_FAIL RETRY(2) TERMINATE "x"',
    "@PARALLEL { S1: @A () > $a S2: @B () > $b }",
    "parallel\n{\nS1: @X\n}\n",
    "**S1:** @X (True, NONE, +5, .5, 5.)",
    "S1: @X ('a\"b', \"\\d\", '''x\ny''')",
    "S1: ?IF ($a == 1) AND ($b == 2) THEN @X",
    "S1: foreach x in $y THEN @X ($x)",
    'S1: @X ("${a}", ${a.b})',
    "plan_start\nS1: @X\nplan_end",
    'S1: @REPLAN (reason="x")',
    "S1: @IF (is_empty($a)) THEN @X",
    "```ltp\nS1: @X\n```",
    'S1: @X ("$a[0] ${x y} $äb")',
    "@X\n@Y\nS1: @Z",
    "S1: TERMINATE ( message = 'stop' )",
    'S1: ?IF ($a CONTAINS "x" Or Not_Empty($b)) THEN @X',
    "S1: @X () S2: @Y ()",
    'S1: @X (R"a")',
    "Sure, here it is:\n\nS1: @X\n\nHope it helps!",
]

WRONG = [
    ("S1 @X ()", ["LTP002"]),
    ("S1: X ()", ["LTP012"]),
    ("S1: @X (a=1 b=2)", ["LTP021"]),
    ("S1: @X (a=1", ["LTP021"]),
    ("S1: @X (a=)", ["LTP022"]),
    ("S1: @X (a=1))", ["LTP021"]),
    ('S1: @X (query="x) > $a\nS2: @READ_FILE (path="b") > $b', ["LTP020"]),
    ("S1: @X [1]", ["LTP033"]),
    ("S1: ?IF ($a) THEN @X", ["LTP042"]),
    ("S1: ?IF ($a is empty) THEN @X", ["LTP041"]),
    ("S1: ?IF () THEN @X", ["LTP040"]),
    ("S1: ?IF ($a == ) THEN @X", ["LTP022"]),
    ("S1: ?IF ($a == 1 THEN @X", ["LTP021"]),
    ("S1: ?IF ($a == 1)) THEN @X", ["LTP021"]),
    ("S1: ?IF ($a == 1 && $b == 2) THEN @X", ["LTP041"]),
    ("S1: ?FORECH ($a IN $b) THEN @X", ["LTP017"]),
    ("S1: ?IF ($a == 1) THN @X", ["LTP014"]),
    ("S1: @X > $a > $b", ["LTP019"]),
    ("S1: @X > a.b", ["LTP050"]),
    ("S1: @X > 5", ["LTP050"]),
    ("S1: @X > $a:integer", ["LTP051"]),
    ("S1: @X → $a", ["LTP052"]),
    ('S1: @X ON_FAIL RESPOND ("x")', ["LTP060"]),
    ("S1: @X ON_FAIL GOTO", ["LTP018"]),
    ("S1: @X ON_FAIL @RETRY(-1)", ["LTP061"]),
    ("S1: @X ON_FAIL @RETRY(2, dely=1)", ["LTP061"]),
    ("@PARALEL {\nS1: @X\n}", ["LTP012"]),
    ("PLAN_START\nS1: @X\n> $a\nPLAN_END", ["LTP002"]),
    ("S1: @Ünï (1)", ["LTP013"]),
    ("S1: @X (ü=1)", ["LTP023"]),
    ('S1: TERMINAT ("x")', ["LTP012"]),
    ("S1: GOTO", ["LTP018"]),
    ("S1: @X ($)", ["LTP030"]),
    ("S1: @X ($a.)", ["LTP030"]),
    ("S1: @X ($größe)", ["LTP030"]),
    ('S1: @X ({"a" 1})', ["LTP021"]),
    ("S1: @X ([1 2])", ["LTP021"]),
    ("S1: @X (“a”)", ["LTP032"]),
    ("S1: ELSE @X", ["LTP015"]),
    ("S1: ?ELSE @X", ["LTP015"]),
    ("ELSE @X", ["LTP015"]),
    ("S1: @X (\n a=1,\n b=@,\n c=2\n) > $x\nS2: @Y (=)", ["LTP032", "LTP022"]),
    ('S1: @X (a="C:\\dir\\")\nS2: @Y', ["LTP020"]),
    ("S1: S2: @X", ["LTP012"]),
    ("S1:: @X", ["LTP011"]),
    ("1: @X", ["LTP002"]),
    ("Step 1: @X ()", ["LTP002"]),
    ("S1: @RETRY(3)", ["LTP012"]),
    ('S1: @fs.read ("x")', ["LTP013"]),
    ("S1: @X (1e5x)", ["LTP024"]),
    ("S1: @X (007)", ["LTP024"]),
    ("S1: @X (1_000)", ["LTP024"]),
    ("S1: @X () ; S2: @Y()", ["LTP019"]),
    ("}", ["LTP009"]),
    ("S1: @X (a=1, $b)", ["LTP026"]),
    ("S1: @X (python)", ["LTP023"]),
    ("?IF ($a) @X", ["LTP042"]),
]


def repaired(text: str, diagnostics: tuple[Diagnostic, ...]) -> str:
    """The text after all non-overlapping fixes, in order of position."""
    edits = [edit for d in diagnostics if d.fix is not None for edit in d.fix.edits]
    out, at = [], 0
    for edit in sorted(edits, key=lambda e: e.span):
        if edit.span.start >= at:
            out += [text[at : edit.span.start], edit.text]
            at = edit.span.end
    return "".join([*out, text[at:]])


@pytest.mark.parametrize("text", LOOSE)
def test_loose_spelling_gives_only_hints(text: str) -> None:
    result = parse(text)
    assert result.plan is not None
    assert result.diagnostics
    assert all(not d.is_error for d in result.diagnostics)


@pytest.mark.parametrize("text", LOOSE)
def test_loose_spelling_is_error_in_strict_mode(text: str) -> None:
    result = parse(text, strict=True)
    assert result.plan is None
    assert all(d.is_error for d in result.diagnostics if d.severity is not Severity.WARNING)


@pytest.mark.parametrize("text", LOOSE)
def test_fixes_lead_to_strict_text_of_same_plan(text: str) -> None:
    """Overlapping fixes take more than one round, as in an editor."""
    plan = parse(text).require()
    for _ in range(4):
        text = repaired(text, parse(text).diagnostics)
    result = parse(text, strict=True)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert result.plan == plan


@pytest.mark.parametrize(("text", "codes"), WRONG)
def test_mistake_has_specific_message(text: str, codes: list[str]) -> None:
    result = parse(text)
    assert [d.code for d in result.diagnostics if d.is_error] == codes
    assert result.plan is None


def test_errors_in_five_lines_are_five_diagnostics() -> None:
    text = "\n".join(
        [
            "PLAN_START",
            "S1: @A (x=)",
            "S2: @B (y=1",
            "S3: ?IF ($a) THEN @C",
            "what is this",
            "S4: @D > $d:integer",
            "S5: @E (z=2) > $e",
            "PLAN_END",
        ]
    )
    result = parse(text)
    lines = [result.source.position(d.span.start).line for d in result.diagnostics if d.span]
    assert lines == [2, 3, 4, 5, 6]
    assert [s.id for s in result.partial.steps] == ["S5"]


def test_missing_quote_affects_one_step() -> None:
    result = parse('S1: @A (q="x) > $a\nS2: @B (p="b") > $b\nS3: @RESPOND ($b)')
    assert [d.code for d in result.diagnostics if d.is_error] == ["LTP020"]
    assert [s.id for s in result.partial.steps] == ["S2", "S3"]


def test_missing_bracket_affects_one_step() -> None:
    result = parse('S1: @A (q="x" > $a\nS2: @B (p=[1\nS3: @RESPOND ("c")')
    assert [d.code for d in result.diagnostics if d.is_error] == ["LTP021", "LTP021"]
    assert [s.id for s in result.partial.steps] == ["S3"]


@pytest.mark.parametrize(
    "step",
    ["@POST (to=#dev, text=1)", "@POST (#dev)", '@POST (a="#", to= #dev,\n text=1)'],
)
def test_value_starting_comment_is_reported_as_comment(step: str) -> None:
    result = parse(f'S1: {step}\nS2: @RESPOND ("c")')
    (error,) = [d for d in result.diagnostics if d.is_error]
    assert (error.code, error.help) == ("LTP023", 'write "#dev"')
    assert "a # begins a comment" in error.message


def test_comment_among_arguments_is_not_value() -> None:
    result = parse('S1: @POST (to="#dev", # why\n text=)\nS2: @RESPOND ("c")')
    assert [d.code for d in result.diagnostics if d.is_error] == ["LTP022"]


def test_missing_triple_quote_affects_one_step() -> None:
    result = parse('S1: @A (q="""x) > $a\nS2: @B (p="""b""") > $b')
    assert [d.code for d in result.diagnostics if d.is_error] == ["LTP020"]
    assert [s.id for s in result.partial.steps] == ["S2"]


def test_prose_is_no_plan() -> None:
    for text in ("", "  \n", "I cannot do that.", "PLAN_START\n\nPLAN_END"):
        assert [d.code for d in parse(text).diagnostics if d.is_error] == ["LTP001"]


def test_step_like_line_is_no_prose() -> None:
    for line in ('search "a" > r', "get_report > rep", "show $a", "S1 then"):
        assert "LTP002" in {d.code for d in parse(f'{line}\nS2: @RESPOND ("x")').diagnostics}


def test_step_like_line_in_text_does_not_end_text() -> None:
    result = parse('S1: @NOTIFY (text="find us at\nTwitter: @example\nnote: ?")\nS2: @RESPOND ("x")')
    assert result.plan is not None


def test_text_before_first_marker_is_ignored() -> None:
    result = parse('S1: @A (\nS2: @B ("x")\nPLAN_START\nS1: @C\nPLAN_END\nS9: @D ("y")')
    assert [s.id for s in result.require().steps] == ["S1"]
    assert [d.code for d in result.diagnostics if d.code == "LTP005"] == ["LTP005", "LTP005"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('INPUT $d: str = "x"\nS1: @RESPOND ($d)', "INPUT"),
        ("S1: @X > $a\n?IF (not $a) THEN @Y\nLET $b = $a", "LET"),
        ("S1: ?FOREACH ($x IN $a) {\n  @X (a=$x)\n}", "?FOREACH … {"),
        ("TRY {\n  @X\n} ON_FAIL {\n  @Y\n}", "TRY … {"),
    ],
)
def test_what_only_version_2_has_names_the_line_that_is_missing(text: str, word: str) -> None:
    first = next(one for one in parse(text).diagnostics if one.is_error)
    assert first.help == f"{word} is of version 2 of the language: begin the text with the line # ltp: 2"
