"""The smallest change of a policy for a plan, and what a change permits: both are proved."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.conformance.security import read_plan, read_security_cases

import callsheet
from callsheet.api.policies import load_policy
from callsheet.api.policy_changes import proposal
from callsheet.api.policy_entries import explanation
from callsheet.api.proving import prove
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.policy.calls import CODES
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.tools import Registry


@callsheet.tool(effect="read")
def get_mail(query: str = "") -> str:
    return query


@callsheet.tool
def send(to: str, body: str, cc: str = "") -> str:
    return body


@callsheet.tool
def pay(to: str, amount: int) -> str:
    return to


@callsheet.tool
def frobnicate(what: str) -> str:
    return what


THERE = Registry(map(tool_of, (get_mail, send, pay, frobnicate)))
READ = 'S1: @GET_MAIL (query="a") > $m\n'
OWN = """
schema = 1
extends = "workspace"
[audience.trusted]
mail = ["ada@corp.example"]
[class.sends]
tools = ["send"]
approval = "never"
[tools."@PAY"]
egress = false
control = ["to"]
destructive = false
returns = "T/priv"
fields = { "receipt.date" = "T/pub" }
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.toml").write_text(OWN)
    return str(tmp_path / "own.toml")


def plan_of(text: str) -> Plan:
    return parse(f"PLAN_START\n{text}\nPLAN_END").require()


@pytest.mark.parametrize(
    ("plan", "lines"),
    [
        (f"{READ}S2: @RESPOND ($m)", []),
        ('S1: @FROBNICATE ("a")', ['[class] administers + "frobnicate"']),
        (
            f'{READ}S2: @SEND (to="eve@c.example", body=$m)',
            ['[tools."@SEND"] approval = "if-untrusted-or-outside"'],
        ),
        (
            f'{READ}S2: @FETCH_PAGE (url="https://api.c.example/$m")',
            ['[audience.trusted] hosts + "api.c.example"'],
        ),
        (f"{READ}S2: @PAY (to=$m, amount=3)", ['[tools."@PAY"] approval = "if-untrusted-or-outside"']),
        ('S1: @HOST_FILE_READ ("/srv/a.txt")', ['[host] read + "/srv/a.txt"']),
        ('S1: @PAY (to="ada", amount=3) > $p ON_FAIL @RETRY(2)', ['[tools."@PAY"] idempotent = true']),
    ],
)
def test_smallest_change_lets_plan_pass(own: str, plan: str, lines: list[str]) -> None:
    found = proposal([plan_of(plan)], own, THERE)
    assert found.ok
    assert [str(line) for line in found.lines] == lines


def test_proposed_file_extends_the_policy_and_keeps_what_its_tables_said(own: str, tmp_path: Path) -> None:
    plans = [
        plan_of(f"{READ}S2: @PAY (to=$m, amount=3)"),
        plan_of(f'{READ}S2: @FETCH_PAGE (url="https://api.c.example/$m")'),
    ]
    found = proposal(plans, own, THERE)
    (tmp_path / "new.toml").write_text(found.text)
    data = tomllib.loads(found.text)
    assert data["audience"]["trusted"] == {"mail": ["ada@corp.example"], "hosts": ["api.c.example"]}
    assert data["tools"]["@PAY"]["control"] == ["to"]
    policy = load_policy(tmp_path / "new.toml")
    assert all(prove(plan, policy, THERE).ok for plan in plans)
    before = load_policy(own).tools["PAY"]
    assert (policy.tools["PAY"].returns, policy.tools["PAY"].fields) == (before.returns, before.fields)
    assert not any(prove(plan, load_policy(own), THERE).ok for plan in plans)


@pytest.mark.parametrize(
    ("plan", "codes"),
    [
        ('S1: @READ_FILE (".env") > $e\nS2: @SEND (to="ada@corp.example", body=$e)', {"POL103"}),
        (f"{READ}S2: @EXEC_CODE (code=$m)", {"POL104"}),
        (f'{READ}S2: @WRITE_FILE (".bashrc", $m)', {"POL107"}),
        ('S1: @FETCH_PAGE (url="http://169.254.169.254/")', {"POL105"}),
    ],
)
def test_no_line_is_proposed_for_what_nobody_may_allow(own: str, plan: str, codes: set[str]) -> None:
    found = proposal([plan_of(plan)], own, THERE)
    assert {CODES[each.rule] for each in found.refused} == codes
    assert found.lines == ()


CASES = Path(__file__).parents[1] / "conformance" / "cases" / "security.jsonl"


def test_no_hostile_plan_is_proposed_a_line_that_only_loosens_tools() -> None:
    """What is proposed for a leak names its receiver, who is in the plan; no untrusted data decides."""
    for case in [case for case in read_security_cases(CASES) if case.must == "refuse"][::3]:
        plan, errors = read_plan(case.plan)
        if plan is None or errors:
            continue
        for line in proposal([plan], "workspace", Registry()).lines:
            named = (
                line.table[0] in ("audience", "network", "host") and str(line.value) in str(case.plan).lower()
            )
            assert named or line.table[0] in ("budgets", "dynamic"), (case.id, str(line))


def shifts(own: str, text: str, tmp_path: Path) -> list[str]:
    (tmp_path / "now.toml").write_text(f'schema = 1\nextends = "own.toml"\n{text}')
    return [*explanation(load_policy(own), load_policy(tmp_path / "now.toml"), THERE).lines()]


def test_same_policy_permits_the_same(own: str, tmp_path: Path) -> None:
    assert shifts(own, "", tmp_path) == ["the policies permit the same"]


def test_explanation_says_what_is_newly_permitted_and_what_is_stricter(own: str, tmp_path: Path) -> None:
    said = shifts(own, '[tools."@SEND"]\napproval = "if-untrusted-or-outside"\n[tools."@PAY"]\n', tmp_path)
    assert "  @SEND, with private data for a stranger: refused before, asked about now" in said
    assert "  @PAY, with data of the plan: permitted before, asked about now" in said
    assert said.index("newly permitted or asked about:") < said.index("stricter than before:")


def test_explanation_names_a_newly_trusted_receiver(own: str, tmp_path: Path) -> None:
    said = shifts(own, '[audience.trusted]\nmail = ["ada@corp.example", "eve@c.example"]\n', tmp_path)
    assert "  @SEND, with private data for eve@c.example: refused before, permitted now" in said
    assert any("audiences.trusted.mail" in line for line in said)


def test_pattern_that_permits_more_than_it_seems_is_explained(own: str, tmp_path: Path) -> None:
    said = shifts(own, '[class]\nreads = ["*"]\n', tmp_path)
    assert "  @FROBNICATE, with data of the plan: refused before, permitted now" in said
