"""Names in texts that look like references and are none."""

import pytest

from callsheet.diagnostics.diagnostic import fixes_of
from callsheet.frontends.structured import read_structured
from callsheet.passes import check


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ('"Hello {n}"', ["write ${n} for the value"]),
        ('"Hello {{ n.a }}"', ["write ${n.a} for the value"]),
        (
            '"$l[0] $l[$n]"',
            [
                "write ${l[0]} for the part of the value, ${l} for the whole",
                "write ${l[…]} for the part of the value, ${l} for the whole",
            ],
        ),
        ('["{n}", "${l[0]} ${l}[0] {other} {n: 1} $l. $n5 {}"]', ["write ${n} for the value"]),
    ],
)
def test_each_is_told_with_its_spelling(text: str, helps: list[str]) -> None:
    read = read_structured(f"# ltp: 2\nLET $n = 3\nLET $l = [1]\nLET $n5 = 1\n@RESPOND ({text})").require()
    found = check(read, tools={})
    assert [str(one.help) for one in found] == helps
    assert {one.code for one in found} == {"CHK034"}
    assert not any(one.is_error for one in found)


@pytest.mark.parametrize(
    ("text", "fixed"),
    [("$l[0] and", ["${l[0]} and"]), ("a $l[0].md", ["a ${l[0].md}", "a ${l[0]}.md"]), ("$l[$n]", [])],
)
def test_braces_for_an_index_are_offered(text: str, fixed: list[str]) -> None:
    plan = f'# ltp: 2\nLET $n = 0\nLET $l = ["x"]\n@RESPOND ("{text}")'
    (found,) = check(read_structured(plan).require(), tools={})
    made = [edit for fix in fixes_of(found, plan) for edit in fix.edits]
    assert [plan[: one.span.start] + one.text + plan[one.span.end :] for one in made] == [
        plan.replace(text, one) for one in fixed
    ]


def test_code_has_braces_of_its_own() -> None:
    text = '# ltp: 2\nLET $n = 3\n@EXEC_CODE (code="f\'{n}\'", language="python")\n@A (template="{n}")'
    assert not [one for one in check(read_structured(text).require()) if one.code == "CHK034"]
