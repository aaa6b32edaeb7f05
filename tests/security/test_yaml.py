"""YAML from untrusted sources: no expansion, no guessing, no objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.growth import seconds

from callsheet import Plan
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Call, Literal

PLAN = """steps:
- index: 1
  title: A
  tool: note
  depends_on: []
  args:
    v: {}
"""


def value_of(written: str) -> object:
    """The value of an argument written so in YAML."""
    plan = parse_dag(PLAN.format(written), is_yaml=True).require()
    action = plan.steps[0].action
    assert isinstance(action, Call)
    (found,) = (value for name, value in action.named if name == "v")
    assert isinstance(found, Literal)
    return found.value


def codes(text: str) -> set[str]:
    with pytest.raises(CallsheetError) as caught:
        parse_dag(text, is_yaml=True).require()
    return {d.code for d in caught.value.diagnostics if d.is_error}


@pytest.mark.parametrize("levels", [9, 200])
def test_alias_bomb_is_refused_at_once(levels):
    """Expanded, nine levels are 387 million values; two hundred are uncountable."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, levels))
    parse_dag("a: 1", is_yaml=True)  # the reader is imported
    found = []
    assert seconds(lambda: found.append(codes(f"{bomb}{PLAN.format(1)}"))) < 0.5
    assert found == [{"DAG007"}]


@pytest.mark.parametrize("written", ["&x [1]\n    w: *x", "&x [1]", "&x 1", "*x", "{a: *x}"])
def test_aliases_are_refused_at_any_size(written):
    """An anchor is refused at its definition as well as at its use."""
    assert codes(PLAN.format(written)) == {"DAG007"}


TEXTS = [
    "no",
    "off",
    "Yes",
    "1:30",
    "2026-11-22",
    "2026-11-22T10:00:00Z",
    "12:30:45",
    "=",
    "1.2.3",
    "0x",
    "~root",
]


@pytest.mark.parametrize("written", [*TEXTS, "null_", "nan", "inf", "012", "007", "00"])
def test_implicit_types_stay_text(written):
    assert value_of(written) == written


@pytest.mark.parametrize("written", ["0o14", "0x1F", "0b11", "1_000", "+1", ".5", ".inf", "-.INF", ".nan"])
def test_ambiguous_number_is_refused(written):
    assert codes(PLAN.format(written)) == {"DAG008"}
    assert value_of(f'"{written}"') == written


@pytest.mark.parametrize(
    "written",
    [
        '!!python/object/apply:os.system ["touch made"]',
        "!!python/object:subprocess.Popen {args: x}",
        "!!python/name:os.system",
        "!!binary aGk=",
        "!!timestamp 2026-11-22",
        "!!set {a}",
        "!own x",
        "!!str 1",
    ],
)
def test_tags_create_no_objects(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "DAG007" in codes(PLAN.format(written))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("[" * 2_000 + "]" * 2_000, "DAG003"),
        ("[" * 100_000, "DAG003"),
        ("{a: " * 100_000, "DAG003"),
        ("9" * 5_000, "DAG004"),
        ("1e999", "DAG004"),
        ("{a: 1, a: 2}", "DAG002"),
        ("{<<: {a: 1}}", "DAG007"),
    ],
)
def test_depth_and_size_are_limited(written, code):
    found = []
    assert seconds(lambda: found.append(codes(PLAN.format(written)))) < 2
    assert code in found[0]


def test_files_are_read_equally(tmp_path: Path):
    path = tmp_path / "plan.yaml"
    path.write_text("a: &a [1]\nb: *a\n" + PLAN.format("no"))
    with pytest.raises(CallsheetError, match="DAG007"):
        Plan.load(path)
