"""Names in version 2: what is set where, scopes, failures as values, words in their places."""

from dataclasses import replace

import pytest
from tests.growth import seconds
from tests.passes.structured.trees import (
    GO_ON,
    SKIP,
    Word,
    attempt,
    call,
    codes,
    compute,
    during,
    each,
    found,
    give,
    group,
    handle,
    leave,
    let,
    plan,
    put,
    require,
    respond,
    say,
    sub,
    tree,
    until,
    use,
    when,
)

from callsheet.ir.tree import Handler, Recovery, Statement, SubPlan, Tree
from callsheet.ir.types import Basic
from callsheet.passes.structured import check_tree

NOTE = say(Word.NOTE, "$error.kind")
FAIL = say(Word.FAIL, "'no'")

GOOD: dict[str, tuple[Statement, ...]] = {
    "a step sets on success": (call("T", into="x"), respond("$x")),
    "USE sets": (call("T", into="x", fails=use("0")), respond("$x")),
    "a handler that sets": (call("T", into="x", fails=handle(let("x", "1"))), respond("$x")),
    "a handler that ends": (call("T", into="x", fails=handle(FAIL)), respond("$x")),
    "TERMINATE on failure": (call("T", into="x", fails=leave("'no'")), respond("$x")),
    "both branches": (when("1 < 2", let("x", "1"), other=[let("x", "2")]), respond("$x")),
    "a branch that ends": (when("1 < 2", respond("1"), other=[let("x", "2")]), respond("$x")),
    "a branch without ELSE that ends": (
        call("T", into="x", fails=GO_ON),
        when("FAILED($x)", respond("$x.error")),
        respond("$x"),
    ),
    "narrowed in both branches": (
        call("T", into="x", fails=GO_ON),
        when("FAILED($x)", respond("$x.message"), other=[respond("$x")]),
    ),
    "narrowed by and, or, not": (
        call("T", into="x", fails=GO_ON),
        when("not FAILED($x) and $x.ok", respond("$x")),
        when("FAILED($x) or $x.ok == 2", respond("1")),
    ),
    "REQUIRE narrows": (call("T", into="x", fails=GO_ON), require("not FAILED($x)"), respond("$x")),
    "a loop's list": (each("m", "[1]", let("k", "$m"), give("$k"), into="l"), respond("$l")),
    "sibling loops": (each("m", "[1]", let("k", "$m")), each("m", "[2]", let("k", "$m")), respond("1")),
    "SET of an outer variable": (let("n", "0"), each("m", "[1]", put("n", "$n + $m")), respond("$n")),
    "UNTIL sees the body": (until("$x == 1", let("x", "1")), respond("$x")),
    "WHILE sees what was before": (let("x", "1"), during("$x < 5", let("x", "$x + 1")), respond("$x")),
    "a variable that tells that TRY came to its end": (
        let("done", "False"),
        attempt(call("T"), let("done", "True"), fails=handle(let("x", "1"))),
        when("$done", let("x", "2")),
        respond("$x"),
    ),
    "TRY sets": (attempt(let("x", "1"), fails=handle(let("x", "2"))), respond("$x")),
    "FINALLY sees what was before": (
        let("a", "1"),
        attempt(call("T", into="x"), fails=handle(FAIL, final=(say(Word.NOTE, "$a"),))),
        respond("$x"),
    ),
    "FINALLY sets": (attempt(call("T"), fails=handle(final=(let("z", "1"),))), respond("$z")),
    "members set": (group(call("A", into="a"), call("B", into="b")), respond("$a", "$b")),
    "COMPUTE": (let("a", "1"), compute("b", names=("a",)), respond("$b")),
    "$error in its handler and a loop in it": (
        call("T", fails=handle(each("m", "[1]", say(Word.NOTE, "$error.message")))),
    ),
    "handlers nest": (
        call("T", fails=handle(call("U", fails=handle(NOTE)), say(Word.NOTE, "$error.step"))),
    ),
    "BREAK keeps what is set": (
        let("x", "0"),
        each("m", "[1]", put("x", "$m"), when("$m > 3", say(Word.BREAK))),
        respond("$x"),
    ),
    "a loop that only BREAK leaves": (during("True", let("x", "1"), say(Word.BREAK)), respond("$x")),
    "rounds that only BREAK leaves": (
        until("False", when("1 < 2", let("x", "1"), say(Word.BREAK))),
        respond("$x"),
    ),
    "SKIP on a loop": (each("m", "[1]", call("T"), give("$m"), into="l", fails=SKIP), respond("$l")),
    "USE on a loop": (each("m", "[1]", call("T"), give("$m"), into="l", fails=use("[]")), respond("$l")),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_plan_whose_variables_are_set_has_no_findings(name: str) -> None:
    assert found(tree(*GOOD[name])) == []


BAD: dict[str, tuple[str, tuple[Statement, ...]]] = {
    "unknown": ("CHK001", (respond("$x"),)),
    "before": ("CHK002", (say(Word.NOTE, "$x"), let("x", "1"))),
    "one branch": ("CHK003", (when("1 < 2", let("x", "1")), respond("$x"))),
    "a variable that tells something else": (
        "CHK003",
        (
            let("done", "False"),
            attempt(call("T"), let("done", "True"), fails=handle(say(Word.NOTE, "1"))),
            when("$done", let("x", "2")),
            respond("$x"),
        ),
    ),
    "a variable that a handler makes true, too": (
        "CHK003",
        (
            let("done", "False"),
            attempt(call("T"), let("done", "True"), fails=handle(let("x", "1"), let("done", "True"))),
            when("not $done", respond("1")),
            respond("$x"),
        ),
    ),
    "a variable that is true before TRY": (
        "CHK003",
        (
            let("done", "True"),
            attempt(call("T"), let("x", "1"), let("done", "True"), fails=handle(say(Word.NOTE, "1"))),
            when("$done", respond("$x"), other=[respond("1")]),
        ),
    ),
    "a variable that an earlier round has made true": (
        "CHK003",
        (
            let("done", "False"),
            during(
                "1 < 2",
                attempt(call("T"), let("done", "True"), fails=handle(let("x", "1"))),
                when("$done", let("x", "2")),
                say(Word.NOTE, "$x"),
            ),
        ),
    ),
    "a TRY in the branch beside": (
        "CHK003",
        (
            let("done", "False"),
            when(
                "1 < 2",
                attempt(call("T"), let("done", "True"), fails=handle(let("x", "1"))),
                other=[when("$done", let("x", "2")), respond("$x")],
            ),
        ),
    ),
    "a TRY inside the one that has failed": (
        "CHK003",
        (
            let("done", "False"),
            attempt(
                attempt(call("T"), let("done", "True"), fails=handle(call("T"), let("x", "1"))),
                fails=handle(when("$done", let("x", "2")), respond("$x")),
            ),
        ),
    ),
    "a handler that does not set": (
        "CHK003",
        (call("T", into="x", fails=handle(say(Word.NOTE, "1"))), respond("$x")),
    ),
    "inside the handler": ("CHK002", (call("T", into="x", fails=handle(say(Word.NOTE, "$x"))), respond("1"))),
    "in TRY's handler": (
        "CHK003",
        (attempt(let("x", "1"), call("T"), fails=handle(say(Word.NOTE, "$x"))), respond("1")),
    ),
    "FINALLY does not see the body": (
        "CHK003",
        (attempt(call("T", into="x"), fails=handle(FAIL, final=(say(Word.NOTE, "$x"),))), respond("1")),
    ),
    "after a loop over possibly nothing": ("CHK001", (each("m", "[1]", let("k", "1")), respond("$k"))),
    "the loop variable outside": ("CHK001", (each("m", "[1]", call("T")), respond("$m"))),
    "$error outside": ("CHK001", (call("T", fails=handle(say(Word.NOTE, "1"))), respond("$error.message"))),
    "$error in FINALLY": (
        "CHK001",
        (attempt(call("T"), fails=handle(final=(say(Word.NOTE, "$error.message"),))), respond("1")),
    ),
    "WHILE may run no round": ("CHK003", (during("1 < 2", let("x", "1")), respond("$x"))),
    "the next round": ("CHK002", (until("$x == 1", say(Word.NOTE, "$x"), let("x", "1")),)),
    "UNTIL after CONTINUE": (
        "CHK003",
        (until("$x == 1", when("1 < 2", say(Word.CONTINUE)), let("x", "1")),),
    ),
    "after BREAK": ("CHK003", (until("1 < 2", when("1 < 2", say(Word.BREAK)), let("x", "1")), respond("$x"))),
    "shadowing": ("CHK101", (let("x", "1"), each("m", "[1]", let("x", "2")))),
    "shadowing by a loop variable": ("CHK101", (let("m", "1"), each("m", "[1]", call("T")))),
    "shadowing by a later name": ("CHK101", (each("m", "[1]", call("T", into="x")), let("x", "1"))),
    "the name of the failure": ("CHK101", (let("error", "1"), call("T", fails=handle(say(Word.NOTE, "1"))))),
    "SET of nothing": ("CHK102", (put("x", "1"),)),
    "SET of a later one": ("CHK102", (put("x", "1"), let("x", "1"))),
    "a failure in a text": ("CHK103", (call("T", into="x", fails=GO_ON), respond('"it is $x"'))),
    "a failure as an argument": ("CHK103", (call("T", into="x", fails=GO_ON), call("U", "$x"))),
    "a failure in a condition": ("CHK103", (call("T", into="x", fails=GO_ON), when("$x", call("U")))),
    "a failure's other field": ("CHK103", (call("T", into="x", fails=GO_ON), respond("$x.title"))),
    "a failure in a list": ("CHK103", (call("T", into="x", fails=GO_ON), let("y", "[$x]"))),
    "a copy of a failure": ("CHK103", (call("T", into="x", fails=GO_ON), let("y", "$x"), respond("$y"))),
    "a failed loop's list": (
        "CHK103",
        (each("m", "[1]", call("T"), give("$m"), into="l", fails=GO_ON), respond("$l")),
    ),
    "a failure after its test": (
        "CHK103",
        (call("T", into="x", fails=GO_ON), when("FAILED($x)", say(Word.NOTE, "1")), respond("$x")),
    ),
    "never reached": ("CHK010", (respond("1"), call("T"))),
    "never reached after both branches": (
        "CHK010",
        (when("1 < 2", respond("1"), other=[respond("2")]), call("T")),
    ),
    "members that read each other": ("CHK020", (group(call("A", into="a"), call("B", "$a")), respond("1"))),
    "members that read each other deep inside": (
        "CHK020",
        (group(call("A", into="a"), each("m", "[1]", when("$m", call("B", "$a")))), respond("1")),
    ),
    "members that set one": ("CHK021", (group(call("A", into="a"), call("B", into="a")), respond("1"))),
    "RESPOND under TOGETHER": ("CHK111", (each("m", "[1]", respond("1"), together=True),)),
    "BREAK under TOGETHER": ("CHK111", (each("m", "[1]", say(Word.BREAK), together=True),)),
    "CONTINUE under TOGETHER": (
        "CHK111",
        (each("m", "[1]", when("$m", say(Word.CONTINUE)), call("T"), together=True),),
    ),
    "SET under TOGETHER": (
        "CHK111",
        (let("n", "0"), each("m", "[1]", put("n", "$n + 1"), together=True), respond("$n")),
    ),
    "TERMINATE in a member": ("CHK111", (group(when("1 < 2", say(Word.TERMINATE, "1")), call("T")),)),
    "ON_FAIL TERMINATE in a member": ("CHK111", (group(call("A", fails=leave("1")), call("T")),)),
    "RETURN in a loop of a member": ("CHK111", (group(each("m", "[1]", say(Word.RETURN, "1")), call("T")),)),
    "BREAK outside": ("CHK110", (say(Word.BREAK),)),
    "YIELD outside": ("CHK110", (until("1 < 2", give("1")),)),
    "RE-PLAN in a block": ("CHK110", (when("1 < 2", say(Word.REPLAN)), respond("1"))),
    "SKIP on a call": ("CHK110", (call("T", fails=SKIP),)),
    "USE without a result": ("CHK110", (call("T", fails=use("1")),)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_each_rule_finds_its_fault_and_no_other(name: str) -> None:
    code, body = BAD[name]
    assert set(codes(tree(*body))) == {code}


def test_a_failure_is_no_data_where_a_handler_would_catch_that_either() -> None:
    uses = call("T", fails=handle(call("U", "$error")))
    for body in ((uses,), (attempt(uses, fails=handle(NOTE)),), (each("m", "[1]", uses, fails=SKIP),)):
        assert [(one.code, one.is_error) for one in found(tree(*body))] == [("CHK103", True)]


def test_a_loop_inside_a_member_or_item_may_end_early() -> None:
    assert not found(tree(group(until("1 < 2", say(Word.BREAK)), call("T")), respond("1")))
    assert not found(tree(each("m", "[1]", until("1 < 2", say(Word.CONTINUE)), together=True)))


def test_a_handler_behind_one_for_all_is_never_reached() -> None:
    def of(*kinds: tuple[str, ...]) -> list[str]:
        handlers = tuple(Handler(each_, ()) for each_ in kinds)
        return codes(tree(call("T", fails=Recovery(handlers=handlers))))

    assert of(("TOOL",), ()) == of((), ("DENIED",)) == of(("TOOL",), ("TOOL", "TIMEOUT")) == []
    assert of((), ("TOOL",)) == of(("TOOL",), ("TOOL",)) == of((), ()) == of((), ("DENIED",), ("DENIED",))


def test_a_handler_of_a_kind_that_no_failure_has() -> None:
    handler = call("T", fails=handle(say(Word.NOTE, "1"), kinds=("TIMEOUT", "full", "TIMOUT")))
    whole = tree(handler, when("1 < 2", replace(FAIL, kind="full")))
    (one,) = found(whole)
    assert one.message == "this ON_FAIL block waits for TIMOUT, a kind that no failure has"
    (alone,) = found(tree(call("T", fails=handle(NOTE, kinds=("UnicodeError",)))))
    assert alone.code == "CHK010"
    assert not found(tree(call("T", fails=handle(NOTE, kinds=("VALUE", "UnicodeError")))))
    assert one.help == "did you mean TIMEOUT?"


def test_check_takes_linear_time() -> None:
    def whole(size: int) -> Tree:
        body: list[Statement] = [let("n", "0"), let("x0", "1")]
        for number in range(size):
            body += [
                when("$n > 1", let(f"x{number + 1}", f"$x{number}"), other=[let(f"x{number + 1}", "2")]),
                each("m", "[1]", put("n", "$n + $m"), let("k", "$m"), when("$n > 3", say(Word.BREAK))),
                attempt(call("T", "$n"), fails=handle(say(Word.NOTE, "$error.message"))),
            ]
        return tree(*body)

    small, large = whole(50), whole(800)
    assert any(seconds(lambda: check_tree(large)) < 50 * seconds(lambda: check_tree(small)) for _ in range(3))


def test_one_id_twice_is_told_before_all_else() -> None:
    one, two = call("T", into="x"), call("T", "$nothing")
    whole = tree(one, two)
    assert codes(whole) == ["CHK001"]

    whole = replace(whole, body=tuple(replace(each_, id="S1") for each_ in whole.body))
    assert codes(whole) == ["CHK016"]


def _plans(*plans: SubPlan, body: tuple[Statement, ...] = (respond("1"),)) -> list[str]:
    return codes(tree(*body, plans=plans))


def test_sub_plans() -> None:
    one = plan("one", say(Word.RETURN, "$t"), t=Basic.STR)
    assert _plans(one, body=(sub("one", t="'a'", into="x"), respond("$x"))) == []
    assert _plans(one, body=(sub("two", t="1"),)) == ["CHK104"]
    assert _plans(one, body=(sub("one", u="1"),)) == ["CHK041", "CHK042"]
    assert _plans(plan("one", sub("one"))) == ["CHK105"]
    assert _plans(plan("a", sub("b")), plan("b", sub("c")), plan("c", sub("a"))) == ["CHK105"]
    assert _plans(plan("a", respond("1"))) == ["CHK110"]
    assert _plans(plan("a", say(Word.TERMINATE, "1"))) == ["CHK110"]
    assert _plans(plan("a", say(Word.REPLAN))) == ["CHK110"]
    assert _plans(plan("a", say(Word.NOTE, "$x")), body=(let("x", "1"), respond("$x"))) == ["CHK001"]
    assert _plans(plan("a", call("T")), plan("a", call("T"))) == ["CHK106"]


def test_the_size_of_sub_plans_written_out() -> None:
    small = plan("a", *(call("T") for _ in range(1_000)))
    nine = tuple(sub("a") for _ in range(9))
    assert _plans(small, body=nine) == []
    assert _plans(small, plan("b", *nine), body=(sub("b"), sub("b"))) == ["CHK108"]
    assert _plans(small, body=(each("m", "range(100)", *nine),)) == []


def test_messages_teach() -> None:
    (one,) = found(tree(each("m", "[1]", let("kind", "1")), respond("$kind")))
    assert one.message == "$kind belongs to an item of foreach1, and is not seen outside it"
    assert (one.help or "").startswith("YIELD ($kind)")
    (one,) = found(tree(let("count", "1"), respond("$cuont")))
    assert one.help == "did you mean $count?"
    (one,) = found(tree(call("T", into="x", fails=GO_ON), respond("$x")))
    assert one.message == "$x may be a failure here, which is no data"
