"""Plans that use others: from files and from the library, with their own names, covered by the hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet import Plan, PlanError
from callsheet.diagnostics import Span
from callsheet.ir.tree import all_statements
from callsheet.store.library import PlanLibrary

MAIN = '# ltp: 2\nUSE triage FROM "parts/triage.ltp"\nCALL triage (t={"id": 1}) > $a\nS1: @RESPOND ($a)\n'
PART = """# ltp: 2
TYPE Ticket = {id: int}
INPUT $t: Ticket
PLAN twice ($n: int) -> int {
  RETURN ($n * 2)
}
CALL twice (n=$t.id) > $n:int
S1: @RESPOND ($n + 1)
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_used_plan_is_part_of_the_plan(tmp_path: Path) -> None:
    write(tmp_path, "parts/triage.ltp", PART)
    path = write(tmp_path, "main.ltp", MAIN)
    plan = Plan.load(path)
    tree = plan.ir.tree
    assert tree is not None
    assert [one.name for one in tree.plans] == ["triage", "triage__twice"]
    assert [one.id for one in all_statements(tree)] == [
        "triage.plan1", "triage.S1", "triage.twice.return1", "plan1", "S1",
    ]  # fmt: skip
    assert str(plan) == MAIN
    assert not plan.check()
    write(tmp_path, "parts/triage.ltp", PART.replace("+ 1", "+ 2"))
    assert Plan.load(path).hash != plan.hash


def test_a_used_plan_may_use_others_and_declare_the_plan_itself(tmp_path: Path) -> None:
    write(tmp_path, "a.ltp", '# ltp: 2\nUSE b FROM "b.ltp"\nCALL b () > $x\n@RESPOND ($x)\n')
    write(
        tmp_path,
        "b.ltp",
        '# ltp: 2\nUSE c FROM "c.json"\nPLAN b () -> int {\nCALL c () > $x\nRETURN ($x)\n}\n',
    )
    write(tmp_path, "c.json", '{"ltp": 2, "steps": [{"return": 7}]}')
    tree = Plan.load(tmp_path / "a.ltp").ir.tree
    assert tree is not None
    assert [(one.name, one.origin and one.origin.is_inner) for one in tree.plans] == [
        ("b", False),
        ("b__c", True),
    ]


def test_a_plan_of_the_library_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_PLANS", str(tmp_path / "plans"))
    PlanLibrary(tmp_path / "plans").save(Plan.parse(PART).ir, "triage")
    path = write(tmp_path, "main.ltp", MAIN.replace('"parts/triage.ltp"', 'LIBRARY "triage@1"'))
    assert not Plan.load(path).check()


@pytest.mark.parametrize(
    ("part", "code", "said"),
    [
        (None, "PLN030", "No such file"),
        ("# ltp: 2\nLET $x =\n", "PLN030", "parts/triage.ltp:2:"),
        ('S1: @RESPOND ("a")\n', "PLN031", "version 1"),
        ("# ltp: 2\n@RESPOND (1, 2)\n", "PLN031", "several values"),
        ("# ltp: 2\nPLAN triage () {\n}\n", "PLN031", "does nothing"),
        ("# ltp: 2\nTYPE A = {a: A?}\nINPUT $t: A\n@RESPOND ($t)\n", "PLN031", "contains itself"),
        ('# ltp: 2\nUSE x FROM "../main.ltp"\nCALL x ()\n', "PLN032", "uses itself"),
    ],
)
def test_what_is_wrong_with_a_used_plan_stands_at_its_use(
    tmp_path: Path, part: str | None, code: str, said: str
) -> None:
    if part is not None:
        write(tmp_path, "parts/triage.ltp", part)
    with pytest.raises(PlanError) as caught:
        Plan.load(write(tmp_path, "main.ltp", MAIN))
    (wrong,) = caught.value.diagnostics
    assert (wrong.code, wrong.span and wrong.span.start) == (code, 9)
    assert said in wrong.message


def test_a_use_names_a_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no file has such a name"):
        Plan.load(write(tmp_path, "main.ltp", MAIN.replace("triage.ltp", "\\u0000")))


def test_a_used_plan_may_have_a_sub_plan_that_does_nothing(tmp_path: Path) -> None:
    write(tmp_path, "parts/triage.ltp", PART + "PLAN nothing () {\n}\n")
    assert not Plan.load(write(tmp_path, "main.ltp", MAIN)).check()


def test_a_text_that_is_no_file_uses_nothing() -> None:
    (wrong,) = Plan.parse(MAIN).check()
    assert (wrong.code, wrong.is_error) == ("PLN030", True)


def test_what_check_finds_in_a_used_plan_stands_at_its_use_without_edits(tmp_path: Path) -> None:
    wrong = PART.replace("$n + 1", '"${n.totl} {t}"')
    write(tmp_path, "parts/triage.ltp", wrong)
    twice = MAIN.replace("CALL", 'USE twice FROM "parts/triage.ltp"\nCALL twice (n=1) > $b\nCALL', 1)
    first, second = Plan.load(write(tmp_path, "main.ltp", twice)).check()
    assert {one.message.partition(": ")[0] for one in (first, second)} == {"in the file parts/triage.ltp"}
    assert (first.code, first.swap, second.code, second.fix) == ("CHK034", None, "CHK120", None)
    assert first.span == second.span == Span(9, 43)
