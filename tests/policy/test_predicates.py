"""Predicates of policies: decided on real arguments, and refused where they cannot be decided."""

from __future__ import annotations

import sys

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import LITERAL
from callsheet.policy.calls import Argument, CallView, Hole, Judgement, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import CallRule, Policy, ToolRule
from callsheet.policy.predicates import compile_rules


def holds(when: str, **args: object) -> bool:
    rule = CallRule(tool="SEND_MONEY", when=when, then="approve")
    return compile_rules([rule])[rule](args)  # pyright: ignore[reportArgumentType]


def test_predicate_is_evaluated_on_arguments() -> None:
    assert holds("args.amount > 100.0", amount=150)
    assert not holds("args.amount > 100.0", amount=10)
    assert holds("args.to.endsWith('@corp.example') == false", to="eve@evil.example")


@pytest.mark.parametrize("args", [{}, {"amount": "150"}, {"amount": None}, {"amount": [1]}])
def test_undecidable_predicate_holds(args: dict[str, object]) -> None:
    assert holds("args.amount > 100.0", **args)
    assert holds("args.amount <= 100.0", **args)


def test_non_boolean_predicate_holds() -> None:
    assert holds("args.amount", amount=0)


def test_invalid_predicate_refuses_policy() -> None:
    with pytest.raises(CallsheetError, match="POL003") as caught:
        holds("args.amount >")
    assert "args.amount >" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("when", "said", "at", "hint"),
    [
        ("args.amount >", "it ends where a value was expected", "", None),
        (
            "args.a > 1 and true",
            "'and' stands where an operator or the end was expected",
            "and",
            "CEL writes &&",
        ),
        ("not args.a", "'args' stands where an operator or the end was expected", "args", "CEL writes !"),
        ("args.a = 3", "'=' is not part of CEL", "=", "CEL writes =="),
        ("args.a ? 1", "it ends where an operator or ':' was expected", "", None),
        ("args.to.endsWith('x'", "')' is missing at its end", "", None),
        ("size(args.a 3)", "'3' stands where ')' was expected", "3", None),
        ("args.a == 'x", "a string is not terminated: its closing quote is missing", "'x", None),
        ("args..a", "'..' is not allowed here", "..", None),
        ("args[", "it ends where a value was expected", "", None),
        (
            "args.a ==\n  'x' or args.b",
            "'or' stands where an operator or the end was expected",
            "or",
            "CEL writes ||",
        ),
        (
            "args.a == 'ERROR: <input>:1:1: Syntax error: x' or 1",
            "'or' stands where an operator",
            "or",
            "CEL",
        ),
    ],
)
def test_predicate_error_is_short_and_positioned(when: str, said: str, at: str, hint: str | None) -> None:
    with pytest.raises(CallsheetError, match="POL003") as caught:
        holds(when)
    (found,) = caught.value.diagnostics
    assert f"{when!r}: {said}" in found.message
    assert found.span is not None
    assert when[found.span.start : found.span.end] == at
    assert found.span.start == (when.rindex(at) if at else len(when))
    assert (found.help or "").startswith(hint or "")
    assert (found.help is None) == (hint is None)


def test_predicate_without_args_prefix_refuses_policy() -> None:
    with pytest.raises(CallsheetError, match="POL003") as caught:
        holds("amount > 100.0")
    (found,) = caught.value.diagnostics
    assert found.help == "the arguments of the call are in args: args.amount"
    assert holds("true")
    assert not holds("args.of.exists(one, one > 2)", of=[1, 2])


@pytest.mark.parametrize(
    ("when", "hint"),
    [
        ("sizes(args.x) > 2", "did you mean size?"),
        ("args.to.endWith('x')", "did you mean endsWith?"),
        ("frobnicate(args.x)", "CEL has size, "),
        ("args.amount > limit", "the arguments of the call are in args: args.limit"),
        ("args.of.exists(one, two > 2)", "the arguments of the call are in args: args.two"),
    ],
)
def test_predicate_with_unknown_name_refuses_policy(when: str, hint: str) -> None:
    with pytest.raises(CallsheetError, match="POL003: the rule for @SEND_MONEY would always hold") as caught:
        holds(when)
    (found,) = caught.value.diagnostics
    assert (found.help or "").startswith(hint)


@pytest.mark.parametrize(
    "when",
    [
        "size(args.s) == 3 && args.s.contains('b') && args.s.startsWith('a') && args.s.endsWith('c')",
        "args.s.matches('a.c') && type(args.s) == string && dyn(args.n) == 2 && has(args.s)",
        "int('2') == args.n && uint(2) == 2u && double(2) == 2.0 && string(args.n) == '2'",
        "bytes('a') == b'a' && timestamp(args.t).getFullYear() == 2026 && timestamp(args.t).getDate() == 23",
        "timestamp(args.t).getMonth() == 10 && timestamp(args.t).getDayOfMonth() == 22",
        "timestamp(args.t).getDayOfYear() == 326 && timestamp(args.t).getDayOfWeek() == 1",
        "duration('3661s').getHours() == 1 && duration('60s').getMinutes() == 1",
        "duration('1s').getSeconds() == 1 && timestamp(args.t).getMilliseconds() == 0",
        "args.of.all(one, one > 0) && args.of.exists_one(one, one == 2) && !args.of.exists( two , two > 2)",
        "args.of.map(one, one + 1).filter(two, two > 2) == [3]",
        "optional.of(args.n).hasValue() && optional.none().orValue(1) == 1",
    ],
)
def test_cel_features_are_supported(when: str) -> None:
    """True if decided, and its negation is false: undecidable predicates hold both ways."""
    args: dict[str, object] = {"s": "abc", "n": 2, "t": "2026-11-23T00:00:00Z", "of": [1, 2]}
    assert holds(when, **args)
    assert not holds(f"!({when})", **args)


def test_missing_extra_refuses_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel", None)
    with pytest.raises(CallsheetError, match="POL009"):
        holds("true")


def test_rule_asks_or_refuses_by_call_arguments() -> None:
    tools = {"PAY": ToolRule(egress=False, destructive=False, control=("amount",))}
    asks = CallRule(tool="PAY", when="args.amount > 100.0", then="approve")
    refuses = CallRule(tool="PAY", when="args.amount > 1000.0", then="refuse")
    judge = Judge(Policy(tools=tools, rules=(asks, refuses)))

    def judged(amount: str | Hole) -> Judgement:
        return judge.judge(CallView("S1", "PAY", (Argument("amount", (amount,)),)))

    assert not judged("50").approvals
    assert judged("500").approvals == ("the policy requires approval for @PAY where args.amount > 100.0",)
    assert [o.rule for o in judged("5000").objections] == [Rule.PREDICATE]
    assert judged("much").objections, "what cannot be decided holds"
    for odd in ("[" * 100_000 + "]" * 100_000, "9" * 5_000, "NaN", "-Infinity", "-1e999"):
        assert judged(Hole("x", LITERAL, odd)).objections, "nor can what is no number that can be held"
    unknown = judged(Hole("x", LITERAL))
    assert not unknown.objections
    assert [o.kind for o in unknown.obligations] == ["verify-again"]
    assert judged(Hole("x", LITERAL, "5000")).objections, "at the call it is decided"


@pytest.mark.parametrize(
    ("tool", "name", "when", "value", "is_refused"),
    [
        ("WRITE_FILE", "path", "args.path == 'ours.toml'", "ours.toml", True),
        ("WRITE_FILE", "path", "args.path == 'ours.toml'", "./ours.toml", True),
        ("WRITE_FILE", "path", "args.path == 'ours.toml'", "docs/..//ours.toml", True),
        ("WRITE_FILE", "path", "!args.path.startsWith('docs/')", "docs/../a.md", True),
        ("WRITE_FILE", "path", "!args.path.startsWith('docs/')", "docs/a.md", False),
        ("WRITE_FILE", "path", "args.path != 'README.md'", "README.md", False),
        ("FETCH_PAGE", "url", "args.url.startsWith('https://evil.example')", "HTTPS://EVIL.example./x", True),
        ("FETCH_PAGE", "url", "args.url != 'https://docs.example'", "https://docs.example", False),
        ("FETCH_PAGE", "url", "args.url.contains('?q=a b')", "https://docs.example/?q=a b", True),
        ("PAY", "note", "args.note == 'a/b'", "./a/b", False),
        ("PAY", "file", "args.file == 'a/b'", "./a/b", True),
    ],
)
def test_no_spelling_of_path_or_host_escapes_rule(
    tool: str, name: str, when: str, value: str, is_refused: bool
) -> None:
    tools = {"PAY": ToolRule(egress=False, destructive=False)}
    judge = Judge(Policy(tools=tools, rules=(CallRule(tool=tool, when=when, then="refuse"),)))
    found = judge.judge(CallView("S1", tool, (Argument(name, (value,)),)))
    assert (Rule.PREDICATE in [objection.rule for objection in found.objections]) is is_refused
