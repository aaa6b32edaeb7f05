"""Errors in texts of version 2: each with its code, place and way out, all of a text at once."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import Diagnostic, Source
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir.tree import all_statements

HEAD = "# ltp: 2\n"


def found(text: str) -> list[tuple[str, str, str]]:
    """The code, the place and the marked text of each error."""
    result = read_structured(HEAD + text)
    return [
        (d.code, place(d, result.source), marked(d, result.source)) for d in result.diagnostics if d.is_error
    ]


def place(diagnostic: Diagnostic, source: Source) -> str:
    assert diagnostic.span is not None
    at = source.position(diagnostic.span.start)
    return f"{at.line - 1}:{at.column}"


def marked(diagnostic: Diagnostic, source: Source) -> str:
    assert diagnostic.span is not None
    return source.text[diagnostic.span.start : diagnostic.span.end]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('S1: @A (x="hello) > $x\nS2: @B (text="w") > $y', ("LTP020", "1:11", '"hello) > $x')),
        ("@A (x=1\n@B", ("LTP021", "1:8", "")),
        ("@A (x=1,\nS2: @B (y=2)", ("LTP021", "1:9", "")),
        ("@A (a b)", ("LTP201", "1:5", "a")),
        ("@A (x=)", ("LTP022", "1:7", ")")),
        ("@A (x=1, 2)", ("LTP026", "1:10", "2")),
        ("@A (x=1, x=2)", ("LTP027", "1:10", "x=")),
        ("@get-page (1)", ("LTP013", "1:1", "@get-page")),
        ("@A () > 3", ("LTP050", "1:9", "3")),
        ("@A () > $x.y", ("LTP050", "1:11", ".")),
        ("@A () > $x:strng", ("LTP051", "1:12", "strng")),
        ("LET $x = @A ()", ("LTP211", "1:10", "@A")),
        ('set x = search "a"', ("LTP211", "1:9", "search")),
        ("LET $x = len($e?)", ("LTP201", "1:16", "?")),
        ("$x.y = 3", ("LTP002", "1:1", "$x.y")),
        ("$x = @A ()", ("LTP002", "1:1", "$x = @A ()")),
        ("LET $x", ("LTP211", "1:7", "")),
        ("REQUIRE ($x) ON_FAIL USE (1)", ("LTP215", "1:14", "ON_FAIL USE (1)")),
        ("LET $x = 1 && 2", ("LTP201", "1:12", "&&")),
        ("LET $x = 1 2", ("LTP019", "1:12", "2")),
        ("x = 3", ("LTP002", "1:1", "x = 3")),
        ("?IF ($a) THEN NOTE (1)\nELSE: @A ()", ("LTP205", "2:1", "ELSE")),
        ("?IF ($a) THEN NOTE (1)\nElif: NOTE (1)", ("LTP012", "2:1", "Elif")),
        ("foo (3)", ("LTP012", "1:1", "foo")),
        ("GOTO S3", ("LTP213", "1:1", "GOTO S3")),
        ("@A ON_FAIL GOTO S3", ("LTP213", "1:12", "GOTO")),
        ("@A ON_FAIL RETY(3)", ("LTP060", "1:12", "RETY")),
        ("@A ON_FAIL @RETRY(1) ON_FAIL CONTINUE ON_FAIL {\n}", ("LTP060", "1:47", "{\n}")),
        ("@A ON_FAIL @RETRY(1.5)", ("LTP061", "1:18", "(1.5)")),
        ("?IF (1, 2) {\n@A\n}", ("LTP211", "1:5", "(1, 2)")),
        ("?IF ($a) {\n@A", ("LTP202", "1:10", "{")),
        ("@A\n}", ("LTP203", "2:1", "}")),
        ("?IF ($a) { @B }", ("LTP204", "1:10", "{")),
        ("?IF ($a) {\n@B }", ("LTP204", "2:4", "}")),
        ("?IF ($a) THEN ?IF ($b) THEN @C", ("LTP014", "1:15", "?")),
        ("?FOREACH (($x, $y) IN $z) {\n@A\n}", ("LTP016", "1:11", "(")),
        ("LET $x, $y = $z", ("LTP211", "1:7", ",")),
        ("?FOREACH ($x IN) {\n@A\n}", ("LTP016", "1:16", ")")),
        ("?FOREACH ($x IN $y) TOGETHER IN ORDER {\n}", ("LTP016", "1:39", "{")),
        ('?REPEAT (every="1s") {\n@A\n} UNTIL ($x)', ("LTP212", "1:9", '(every="1s")')),
        ("?REPEAT (max=3) {\n@A\n}", ("LTP212", "3:1", "}")),
        ("?REPEAT (max=3) WHILE ($x) {\n@A\n} UNTIL ($x)", ("LTP212", "3:1", "}")),
        ("TRY {\n@A\n}", ("LTP205", "3:1", "}")),
        ("ELSE {\n@A\n}", ("LTP205", "1:1", "ELSE")),
        ("S1: @A\n?IF ($x) {\nS1: @B\n}", ("LTP206", "3:1", "S1")),
        ("INPUT $x", ("LTP209", "1:7", "$x")),
        ("INPUT $x: int = $y", ("LTP209", "1:17", "$y")),
        ("TYPE T = {a: int, a: str}", ("LTP217", "1:19", "a")),
        ("PLAN p {\n}", ("LTP209", "1:8", "{")),
        ("?IF (True) {\nINPUT $z: int\n}", ("LTP210", "2:1", "INPUT")),
        ('USE p "p.ltp"', ("LTP209", "1:7", '"')),
        ("COMPUTE (reads=[$a]) > $b", ("LTP216", "1:26", "")),
        ("COMPUTE > $b \"\"\"\nb = 1\n", ("LTP020", "1:14", '"""')),
        ('FAIL ("x", kind="USE")', ("LTP211", "1:6", '("x", kind="USE")')),
        ("@A () ;", ("LTP019", "1:7", ";")),
        ('INPUT $k: "a" | str', ("LTP208", "1:17", "s")),
    ],
)  # fmt: skip
def test_an_error_has_its_code_and_place(text: str, error: tuple[str, str, str]) -> None:
    assert found(text)[:1] == [error]
    assert len(found(text)) == 1, found(text)


def test_all_errors_of_a_text_are_found_and_the_rest_is_read() -> None:
    text = """
S1: @A (x="hello) > $x
?IF ($x = 3) {
  LET $y = = 3
  S2: @B
} ELSE IF ($x && 1) {
  S3: @C (a b)
  S4: @D
} ELSE {
  LET $z @E
  S5: @F ON_FAIL GOTO {
    S6: @G
  }
  S7: @H
}
S8: @I
"""
    result = read_structured(HEAD + text)
    assert [d.code for d in result.diagnostics] == [
        "LTP020", "LTP201", "LTP201", "LTP201", "LTP201", "LTP211", "LTP213",
    ]  # fmt: skip
    assert result.partial.tree is not None
    assert [one.id for one in all_statements(result.partial.tree)] == [
        "if1", "S2", "S4", "S7", "S8",
    ]  # fmt: skip
    assert [result.source.text[span.start : span.end].split()[0] for span in result.lost] == [
        "S1:", "LET", "S3:", "LET", "S5:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "printed", "codes"),
    [
        ("let x = 1", "LET $x = 1", ["LTP105", "LTP109"]),
        (
            '?if $x>3 then respond "hi"', '?IF ($x > 3) THEN @RESPOND ("hi")',
            ["LTP105", "LTP112", "LTP105", "LTP106", "LTP112"],
        ),
        (
            "if ($x) {\n@A\n}\nelif ($y) {\n@B\n}", "?IF ($x) {\n  @A\n} ELSE IF ($y) {\n  @B\n}",
            ["LTP106", "LTP121", "LTP106"],
        ),
        ("@fetch_page (1)->$x", "@FETCH_PAGE (1) > $x", ["LTP105", "LTP106"]),
        ("**S1**: @A\n  ON_FAIL CONTINUE", "S1: @A ON_FAIL CONTINUE", ["LTP104", "LTP121"]),
        ("PLAN_START\n@A\nPLAN_END", "@A", ["LTP122", "LTP122"]),
        ("S1: LET $x = 1\nS1: @A\nS2: NOTE (2)", "LET $x = 1\nS1: @A\nNOTE (2)", ["LTP123", "LTP123"]),
        ("?IF ($x)\n{\n@A\n}", "?IF ($x) THEN @A", ["LTP121"]),
        ("@A ON_FAIL [TOOL, own] {\n}", "@A ON_FAIL TOOL, own {\n}", ["LTP112"]),
        ("parallel {\n@A\n}", "@PARALLEL {\n  @A\n}", ["LTP106"]),
        ("LET $x: list = [1]", "LET $x: list[json] = [1]", []),
        ("?FOREACH ($x IN [\n1, # a\n2\n]) THEN @A", "# a\n?FOREACH ($x IN [1, 2]) {\n  @A\n}", []),
    ],
)  # fmt: skip
def test_loose_spellings_are_read_with_hints(text: str, printed: str, codes: list[str]) -> None:
    result = read_structured(HEAD + text)
    assert format_structured(result.require()) == f"{HEAD}{printed}\n"
    assert [d.code for d in result.diagnostics] == codes
    assert all(d.fix is not None for d in result.diagnostics)
    strictly = read_structured(HEAD + text, strict=True)
    assert (strictly.plan is None) == bool(codes)


def test_fixes_make_the_canonical_text() -> None:
    text = HEAD + "let x = 1\nif ($x) {\n@A () -> $y\n}\nELSE {\n@B\n}"
    result = read_structured(text)
    for fix in sorted(
        (d.fix for d in result.diagnostics if d.fix), key=lambda f: f.edits[0].span.start, reverse=True
    ):
        for edit in reversed(fix.edits):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    again = read_structured(text)
    assert not again.diagnostics
    assert again.plan == result.plan


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("let r = @a (x=1) ON_FAIL CONTINUE", "@a (x=1) > $r ON_FAIL CONTINUE"),
        ("S1: LET $r = @A", "S1: @A > $r"),
        ("$r = 3", "LET $r = 3"),
        ("r = 3", "LET $r = 3"),
    ],
)
def test_what_is_no_value_is_an_error_with_a_fix(text: str, repaired: str) -> None:
    (error,) = [d for d in read_structured(HEAD + text).diagnostics if d.is_error]
    assert error.fix is not None
    (edit,) = error.fix.edits
    assert (HEAD + text)[: edit.span.start] + edit.text + (HEAD + text)[edit.span.end :] == HEAD + repaired


def test_blocks_nest_fifty_deep() -> None:
    def nested(depth: int) -> list[str]:
        text = HEAD + "?IF (True) {\n" * depth + "@A\n" + "}\n" * depth
        return [d.code for d in read_structured(text).diagnostics]

    assert nested(49) == []
    assert nested(60) == ["LTP214"]


def test_a_text_of_many_errors_is_not_read_to_its_end() -> None:
    codes = [d.code for d in read_structured(HEAD + "?IF (True) {\n" + "what\n" * 3_000).diagnostics]
    assert codes == ["LTP002"] * 1_000 + ["LTP006"]


@pytest.mark.parametrize(
    "source",
    [
        '"""x"""',
        "a = '''\n'''",
        "  b = 1\n\tc = '#'\n\n",
        "",
        "}",
        '""""',
        "s = 'S1: @A ()'\nLET $x = 1\n?IF (",
        "\\n $x",
    ],
)
def test_the_source_of_compute_is_kept_to_the_letter(source: str) -> None:
    text = HEAD + 'COMPUTE (reads=[$a]) > $b """"""\n' + source + '\n""""""\n@A'
    plan = read_structured(text).require()
    assert plan.tree is not None
    assert getattr(plan.tree.body[0], "source", None) == source
    assert read_structured(format_structured(plan)).require() == plan


@pytest.mark.parametrize(
    ("text", "taught"),
    [
        ("x = get(x=1)", "the result of a call is stored with >: @GET (…) > $x"),
        ("GET (x=1) > $x", "did you mean @GET (…)? A call begins with @"),
        ("for $x in [1] {\n@A\n}", "write ?FOREACH ($x IN $list) {"),
        ("while ($x) {\n@A\n}", "write ?REPEAT (max=30) WHILE (condition) {"),
        ('print("x")', 'write NOTE ("…")'),
        ("TRY {\n@A\n} CATCH {\n@B\n}", "CATCH is written ON_FAIL"),
        ("LET $x = 1 > 2 ? 3 : 4", "c ? a : b is written a if c else b"),
        ("LET $x = ($a ? 3 : 4)", "c ? a : b is written a if c else b"),
        ('?IF ($s contains "a") THEN @A', "contains is written in, the other way round: part in whole"),
        ("?IF (NOT $a) THEN @A", "NOT is written not"),
        ("?IF ($a AND $b) THEN @A", "AND is written and"),
        ("LET $x = 1\nSET $x += 1", "+= is written SET $x = $x + …"),
        (
            "?FOREACH ($i IN $l) {\nYIELD ($i) > $l\n}",
            "the list of what YIELD gives is stored behind the loop",
        ),
        ('REQUIRE ($a, "msg")', 'REQUIRE (condition) "message"'),
        ("?FOREACH ($k, $v IN $d) {\n@A\n}", "an item has one name"),
        ("INPUT $x: Optional[str]", "write str?"),
        ("LET $x = $l.append(3)", "write SET $list = $list + [value]"),
        ("LET $x = map($f, $l)", "write a comprehension: [x.name for x in $rows]"),
        ("LET $x = datetime.now()", "write now()"),
    ],
)
def test_a_habit_from_elsewhere_is_told_how_it_is_written_here(text: str, taught: str) -> None:
    told = [one for one in read_structured(HEAD + text).diagnostics if one.is_error]
    assert len(told) == 1, told
    assert taught in f"{told[0].message}\n{told[0].help}"
