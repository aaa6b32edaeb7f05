"""Types in version 2: fields, comparisons, nulls, operators, functions, arguments of tools."""

import pytest
from tests.passes.structured.trees import (
    SKIP,
    Word,
    call,
    codes,
    each,
    found,
    give,
    let,
    plan,
    put,
    require,
    respond,
    say,
    sub,
    tool,
    tree,
    until,
    use,
    when,
)

from callsheet.diagnostics import Severity
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON
from callsheet.ir.tree import Compute, Input, Statement, SubPlan, Tree
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type
from callsheet.passes import check

TICKET = Record(
    (
        ("id", Basic.INT),
        ("title", Basic.STR),
        ("owner", Maybe(Basic.STR)),
        ("due", Basic.DATE),
        ("labels", Maybe(ListOf(Basic.STR))),
    )
)
INPUTS: dict[str, Type] = {
    "t": Named("Ticket"),
    "all": ListOf(Named("Ticket")),
    "n": Basic.INT,
    "f": Basic.FLOAT,
    "s": Basic.STR,
    "b": Basic.BOOL,
    "day": Basic.DATE,
    "at": Basic.DATETIME,
    "age": Basic.DURATION,
    "kind": OneOf(("bug", "feature")),
    "maybe": Maybe(Basic.STR),
    "map": DictOf(Basic.INT),
    "any": Basic.JSON,
}
STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
TOOLS = {
    "SEND": tool(None, to=STRING),
    "COUNT": tool(None, n=INTEGER),
    "MANY": tool(None, all={"type": "array", "items": STRING}),
    "ANYTHING": tool(None, x={}),
    "PICK": tool(None, kind={"enum": ["bug", "task"]}),
    "NULLABLE": tool(None, to={"type": ["string", "null"]}),
    "RECORD": tool(None, record={"type": "object", "properties": {"id": INTEGER}, "required": ["id"]}),
    "READ": tool(
        {
            "type": "object",
            "properties": {
                "name": STRING,
                "size": INTEGER,
                "at": {**STRING, "format": "date-time"},
                "note": {"anyOf": [STRING, {"type": "null"}]},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                "more": {"type": "object", "additionalProperties": True, "properties": {"a": STRING}},
            },
            "required": ["name", "at", "note", "parts", "more"],
            "$defs": {
                "Part": {"type": "object", "properties": {"x": NUMBER, "next": {"$ref": "#/$defs/Part"}}}
            },
        }
    ),
    "SELECT": tool(None, data={}, query=STRING),
}


def _codes(*body: Statement) -> list[str]:
    return codes(tree(*body, inputs=INPUTS, types={"Ticket": TICKET}), TOOLS)


GOOD_EXPRESSIONS = [
    "$t.title",
    "$any.whatever.deep[3].x",
    "$t.owner?",
    "$t.owner ?? 'nobody'",
    "$t.labels?",
    "[x.id for x in $all if x.title == 'a']",
    "[x.owner.upper() for x in $all if x.owner? is not None]",
    "[i + x.id for i, x in enumerate($all)]",
    "sorted($all, key=lambda x: x.due)[0].title",
    "max([x.id for x in $all], default=0)",
    "$n == 2.5",
    "$n < $f",
    "$day < date('2026-01-01')",
    "now() - $at < duration('2d')",
    "$day + $age",
    "$day.year",
    "$kind == 'bug'",
    "$map['a'] + 1",
    "$map.a + 1",
    "$map.get('a', 0) + 1",
    "'x' in $s and $s[0] == 'x'",
    "$s in [x.title for x in $all]",
    "$maybe == 'a'",
    "$maybe is None",
    "$maybe.upper() if $maybe else 'none'",
    "$maybe is not None and $maybe.upper()",
    "$maybe is None or $maybe.upper()",
    "($maybe ?? 'a').upper()",
    "'${maybe ?? 1}'",
    "', '.join([x.title for x in $all])",
    "', '.join(str(x.id) for x in $all)",
    "sum([x.id for x in $all]) / len($all)",
    "[[1, 2], [3]][0][1] + 1",
    "{'a': 1}.a + 1",
    "{k: v + 1 for k, v in $map.items()}",
    "[a.id + b for a, b in zip($all, [1, 2])]",
    "($t.labels ?? []) + ['x']",
    "'a' if $b else None",
    "round($f, 2) * 3",
    "$s * 3",
    "not $any",
    "-$n",
    "len($map) + len($s)",
    "[1] + []",
    "{x.id for x in $all} | {1}",
    "min($n, $f)",
    "$any + 1",
    "$any < 3",
    "$any['a']?.b",
]


@pytest.mark.parametrize("text", GOOD_EXPRESSIONS)
def test_an_expression_that_can_have_a_value_has_no_findings(text: str) -> None:
    assert _codes(let("v", text)) == []


BAD_EXPRESSIONS = {
    "CHK120": [
        "$t.titel",
        "$t['titel']",
        "$all.title",
        "[x.titel for x in $all]",
        "$s.name",
        "$n.x",
        "$day.hour",
        "{'a': 1}.b",
        "sorted($all, key=lambda x: x.dew)",
        "$all[0].titel",
        "$t.nothing?",
        "[b.titel for a, b in enumerate($all)]",
    ],
    "CHK121": [
        "$n == '2'",
        "$day == '2026-01-01'",
        "$day < '2026-01-01'",
        "$day < $at",
        "$s < 2",
        "1 < $s",
        "$b == 1",
        "[1] == 'a'",
        "$kind == 'bugs'",
        "$n in $s",
        "'a' in [1, 2]",
        "$t == 'a'",
        "$t.id == $t.title",
    ],
    "CHK122": [
        "$t.owner",
        "$maybe.upper()",
        "$maybe + 'a'",
        "$maybe < 'a'",
        "'for $maybe'",
        "'for ${t.owner?}'",
        "len($maybe)",
        "$maybe[0]",
        "[x for x in $t.labels?]",
        "None + 1",
        "$t.owner?.upper() + 'a'",
        "'${any.a?}'",
        "match('a', $s).text",
        "$map.get('a') + 1",
        "'a' in $maybe",
        "$maybe.upper() if not $maybe else 'a'",
    ],
    "CHK123": [
        "$s + $n",
        "'Limit: ' + $n",
        "$n + [1]",
        "$day + 1",
        "$day + $day",
        "$s - 'a'",
        "-$s",
        "len($n)",
        "$n[0]",
        "$all['a']",
        "$n[1:]",
        "[x for x in $n]",
        "$all.lower()",
        "$n.lower()",
        "', '.join([1, 2])",
        "int([1])",
        "sorted(3)",
        "range($s)",
        "round($s)",
        "len()",
        "len($s, $s)",
        "sorted($all, revers=True)",
        "'${set([1])}'",
        "{'a': 1} < {'b': 2}",
        "'%d' % 3",
        "date([1])",
        "$b & $f",
        "match(1, $s)",
        "1 in 2",
    ],
}


@pytest.mark.parametrize(
    ("code", "text"), [(code, text) for code, each_ in BAD_EXPRESSIONS.items() for text in each_]
)
def test_an_expression_that_cannot_have_a_value_is_found(code: str, text: str) -> None:
    assert _codes(let("v", text)) == [code]


GOOD: dict[str, tuple[Statement, ...]] = {
    "a text for a text": (call("SEND", to="$t.title"),),
    "what is unknown": (call("SEND", to="$any.name"), call("COUNT", n="$any"), call("MANY", "$any")),
    "null where it is taken": (call("NULLABLE", to="$maybe"), call("ANYTHING", "$maybe")),
    "after a test": (when("$maybe is not None", call("SEND", to="$maybe"), other=[call("SEND", to="'x'")]),),
    "after REQUIRE": (require("$t.owner? and $n > 1"), call("SEND", to="$t.owner")),
    "after a branch that ends": (when("$t.owner? is None", respond("1")), call("SEND", to="$t.owner")),
    "in an item": (each("x", "$all", when("$x.owner?", call("SEND", to="$x.owner"))),),
    "whole numbers": (call("COUNT", n="len($all)"), call("COUNT", n="$n // 2")),
    "lists": (call("MANY", "[x.title for x in $all]"), call("MANY", "[]"), call("MANY", "$t.labels ?? []")),
    "a time in its own form": (
        call("READ", into="r"),
        when("$r.at == '2024-05-19T10:00:00' or $r.at != '' or $r.at[:10] == '2024-05-19'", respond("1")),
    ),
    "a list yielded": (each("x", "$all", give("$x.title"), into="l"), call("MANY", "$l")),
    **{
        name: (Compute("c", source, names, ("v",)), respond("$v"))
        for name, source, names in (
            ("a key tested in a computation", "v = [x['points'] for x in all if x.get('points')]", ("all",)),
            ("a merge", "for x in all:\n    x |= {'points': 1}\nv = all[0]['points']", ("all",)),
            ("a further item", "all.insert(0, {'points': 1})\nv = all[0]['points']", ("all",)),
            ("a capture", "v = 0\nmatch any:\n    case {'t': t}:\n        v = t['points']", ("any", "t")),
            ("what is told apart", "v = t['points'] if isinstance(t, list) else 0", ("t",)),
            ("a long path in a computation", "v = any" + "['a']" * 1_500, ("any",)),
        )
    },
    "records": (
        call("RECORD", record="{'id': $n}"), call("RECORD", record="$t"), call("RECORD", record="$map"),
    ),
    "the schema of a result": (
        call("READ", into="r"),
        call("SEND", to="$r.name"),
        let("a", "[p.x + 1 for p in $r.parts]"),
        let("b", "$r.more.anything.at.all"),
        let("c", "$r.parts[0].next.next.next"),
        let("d", "'${r.note ?? 1}'"),
    ),
    "a cast": (call("ANYTHING", "1", into="r", of=ListOf(Basic.INT)), call("COUNT", n="$r[0]")),
    "a sub-plan": (sub("half", n="$n", into="h"), call("COUNT", n="$h")),
    "a counter": (let("c", "0"), each("x", "$all", put("c", "$c + $x.id")), call("COUNT", n="$c")),
    "a value that changes its type in a loop": (
        let("c", "None"),
        until("$c == 3", put("c", "1 if $c is None else $c + 1")),
        respond("$c"),
    ),
    "a list that grows": (let("l", "[]"), each("x", "$all", put("l", "$l + [$x.title]")), call("MANY", "$l")),
    "a declared type": (
        let("x", "$n", Basic.FLOAT), let("y", "[]", ListOf(Basic.STR)), let("z", "'bug'", OneOf(("bug",))),
        respond("$z"),
    ),
    "the items that SKIP leaves": (
        each("x", "$all", give("$x.id"), into="l", fails=SKIP),
        call("COUNT", n="sum($l)"),
    ),
    "a classification": (
        call("LLM_CLASSIFY", "$s", categories="['a', 'b']", into="k"),
        when("$k == 'a'", respond("1")),
        call("SEND", to="$k"),
    ),
    "a query's parameters": (
        call("SELECT", "$all", query=r'"[?id == \$n]"', n="$n", into="r"), respond("$r"),
    ),
    "an expression of CALC": (call("CALC", "$n * 2", into="r"), respond("$r")),
    "options that fit": (when("$kind == 'bug'", call("PICK", kind="'bug'")),),
    "numbers as keys": (
        let("d", "{x: str(x) for x in [1, 2]}"),
        call("COUNT", n="list($d)[0]"),
        call("COUNT", n="[k for k, v in $d.items()][0]"),
    ),
}  # fmt: skip

BAD: dict[str, tuple[str, tuple[Statement, ...]]] = {
    "a record for a text": ("CHK044", (call("SEND", to="$t"),)),
    "a list for a text": ("CHK044", (call("SEND", to="$all"),)),
    "a number for a text": ("CHK044", (call("SEND", to="$n"),)),
    "a text for a number": ("CHK044", (call("COUNT", n="$s"),)),
    "a truth for a number": ("CHK044", (call("COUNT", n="$n > 1"),)),
    "a list of other items": ("CHK044", (call("MANY", "[[x] for x in $all]"),)),
    "a record without the field": ("CHK042", (call("RECORD", record="{'x': 1}"),)),
    "a variable without the field": ("CHK044", (let("r", "{'x': 1}"), call("RECORD", record="$r"))),
    "other options": ("CHK044", (call("PICK", kind="'bugs'"),)),
    "options of a variable": (
        "CHK044",
        (call("LLM_CLASSIFY", "$s", categories="['a']", into="k"), call("PICK", kind="$k")),
    ),
    "null for a text": ("CHK122", (call("SEND", to="$maybe"),)),
    "a null result": ("CHK122", (call("READ", into="r"), call("SEND", to="$r.note"))),
    "a field that may be absent": ("CHK122", (call("READ", into="r"), call("COUNT", n="$r.size"))),
    "an unknown field of a result": ("CHK120", (call("READ", into="r"), respond("$r.nmae"))),
    "an unknown field deep inside": ("CHK120", (call("READ", into="r"), respond("[p.y for p in $r.parts]"))),
    "an unknown tool": ("CHK040", (call("SENT", to="'a'"),)),
    "an unknown argument": ("CHK041", (call("SEND", to="'a'", too="'a'"),)),
    "a missing argument": ("CHK042", (call("SEND"),)),
    "too many arguments": ("CHK043", (call("SEND", "'a'", "'b'"),)),
    "a literal of another type": ("CHK044", (call("COUNT", n="'many'"),)),
    "a cast that cannot be": ("CHK031", (call("READ", into="r", of=Basic.INT),)),
    "a declared type that is not": ("CHK125", (let("x", "$s", Basic.INT),)),
    "null in a declared type": ("CHK122", (let("x", "$maybe", Basic.STR),)),
    "an input of a sub-plan": ("CHK125", (sub("half", n="'a'", into="h"), respond("$h"))),
    "a sub-plan's result": ("CHK121", (sub("half", n="1", into="h"), respond("$h == 'a'"))),
    "a text as the source of a loop": ("CHK123", (each("x", "$s", call("ANYTHING", "$x")),)),
    "a number as the source of a loop": ("CHK123", (each("x", "$n", call("ANYTHING", "$x")),)),
    "an item's field": ("CHK120", (each("x", "$all", call("SEND", to="$x.titel")),)),
    "an item's field in a computation": (
        "CHK120",
        (Compute("c", "n = sum(x['points'] for x in all)", ("all",), ("n",)), respond("$n")),
    ),
    "a field of what a computation takes out": (
        "CHK120",
        (
            Compute("c", "t = all[0]\nseen = []\nseen.append(t)", ("all",), ("t", "seen")),
            call("SEND", to="$t.titel"),
        ),
    ),
    "a time in another form": (
        "CHK121",
        (call("READ", into="r"), when("'2024-05-19 10:00' == $r.at", respond("1"))),
    ),
    "a time in another form in a computation": (
        "CHK121",
        (
            call("READ", into="r"),
            Compute("c", "n = 0\nif r['at'] == '19 May 2024':\n    n = 1", ("r",), ("n",)),
            respond("$n"),
        ),
    ),
    "a text's field in a computation": (
        "CHK123",
        (Compute("c", "n = 0\nfor x in s:\n    n += x['points']", ("s",), ("n",)), respond("$n")),
    ),
    "null yielded by some items": (
        "CHK122",
        (each("x", "$all", when("$x.id > 1", give("$x.id")), into="l"), respond("[x + 1 for x in $l]")),
    ),
    "a list of which no item gives a value": (
        "CHK122",
        (each("x", "$all", call("SEND", to="$x.title"), into="l"), respond("[x for x in $l]")),
    ),
    "a classification that is not": (
        "CHK121",
        (
            call("LLM_CLASSIFY", "$s", categories="['urgent', 'other']", into="k"),
            when("$k == 'urgnt'", respond("1")),
        ),
    ),
    "a value spliced into a query": (
        "CHK124",
        (call("SELECT", "$all", query='"[?id == ${n}]"', into="r"), respond("$r")),
    ),
    "a parameter that a query does not get": (
        "CHK042",
        (call("SELECT", "$all", query=r'"[?id == \$n && x == \$m]"', n="$n", into="r"), respond("$r")),
    ),
    "a parameter that a query does not read": (
        "CHK041",
        (call("SELECT", "$all", query=r'"[?id == \'\$n\']"', n="$n", into="r"), respond("$r")),
    ),
    "a value spliced into the text of CALC": ("CHK124", (call("CALC", '"2 * ${n}"'),)),
    "data in code": ("CHK050", (call("EXEC_CODE", code='"print(${s})"'),)),
    "USE of another type": (
        "CHK121",
        (call("ANYTHING", "1", into="x", of=Basic.INT, fails=use("2")), respond("$x == 'a'")),
    ),
    "WAIT for a list": ("CHK123", (say(Word.WAIT, "[1]"),)),
    "WAIT for a text that is no time": ("CHK123", (say(Word.WAIT, "'10 minutes'"),)),
    "a date and a number": ("CHK123", (let("d", "date('2024-01-01') + 3"),)),
}  # fmt: skip

HALF = plan("half", say(Word.RETURN, "$n // 2"), result=Basic.INT, n=Basic.INT)


def _with_plan(*body: Statement) -> list[str]:
    tools = {**TOOLS, "EXEC_CODE": tool(None, code=STRING)}
    return codes(tree(*body, inputs=INPUTS, types={"Ticket": TICKET}, plans=(HALF,)), tools)


@pytest.mark.parametrize("name", GOOD)
def test_a_plan_whose_types_fit_has_no_findings(name: str) -> None:
    assert _with_plan(*GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_each_rule_of_types_finds_its_fault_and_no_other(name: str) -> None:
    code, body = BAD[name]
    assert _with_plan(*body) == [code]


def test_the_results_of_sub_plans_and_of_the_plan_are_checked() -> None:
    wrong = plan("half", say(Word.RETURN, "$n.x"), result=Basic.INT, n=Basic.INT)
    assert codes(tree(plans=(wrong,))) == ["CHK120"]
    wrong = plan("half", say(Word.RETURN, "'a'"), result=Basic.INT)
    assert codes(tree(plans=(wrong,))) == ["CHK125"]
    assert codes(tree(say(Word.RETURN, "'a'"), result=Basic.INT)) == ["CHK125"]
    assert codes(tree(respond("'a'"), result=Maybe(Basic.STR))) == []
    assert codes(tree(say(Word.RETURN), result=Basic.INT)) == ["CHK125"]


def test_a_result_that_is_not_declared_is_what_is_returned() -> None:
    def of(*body: Statement, answer: str) -> list[str]:
        plans = (plan("outer", sub("inner", into="x"), say(Word.RETURN, "$x")), plan("inner", *body))
        return codes(tree(sub("outer", into="y"), respond(answer), plans=plans))

    either = when("1 < 2", say(Word.RETURN, "1"), other=[say(Word.RETURN, "2")])
    assert of(either, answer="$y + 1") == []
    assert of(either, answer="$y + 'a'") == ["CHK123"]
    assert of(when("1 < 2", say(Word.RETURN, "1")), answer="$y + 1") == ["CHK122"]


def test_a_declared_result_is_given_on_every_way() -> None:
    some = plan("some", when("1 < 2", say(Word.RETURN, "1")), result=Basic.INT)
    assert codes(tree(plans=(some,))) == ["CHK125"]
    fails = plan("all", when("1 < 2", say(Word.RETURN, "1")), say(Word.FAIL, "'no'"), result=Basic.INT)
    assert codes(tree(plans=(fails,))) == []


def test_types_that_there_are_not() -> None:
    node = Record((("next", Named("Node")),))
    assert codes(tree(inputs={"n": Named("Nod")}, types={"Node": Record(())})) == ["CHK107"]
    assert codes(tree(inputs={"n": Named("Node")}, types={"Node": node})) == ["CHK107"]


def test_messages_say_what_there_is_and_how_absence_is_written() -> None:
    def only(text: str) -> tuple[str, str | None, Severity]:
        (one,) = found(tree(let("v", text), inputs=INPUTS, types={"Ticket": TICKET}))
        return one.message, one.help, one.severity

    message, help_, severity = only("$t.titel")
    assert message == "$t: a Ticket has no field titel"
    assert help_ == "did you mean title? there is id, title, owner, due and labels"
    assert severity is Severity.ERROR
    message, help_, severity = only("$t.owner")
    assert message == "$t.owner may be absent, which fails the step"
    assert help_ == 'write $t.owner? for null there, or $t.owner ?? "none" for another value'
    assert severity is Severity.WARNING
    message, help_, _ = only("'for ${t.owner?}'")
    assert message == "$t.owner? may be null, which cannot stand in a text"
    message, help_, _ = only("$day < '2026-01-01'")
    assert message == '$day is a date and "2026-01-01" a str, which < does not compare'
    assert help_ == "convert the other to a date: date(…)"
    message, help_, _ = only("$t < 7")
    assert message == "$t is {id, title, owner, due, …} and 7 an int, which < does not compare"
    assert help_ == 'compare its field "id"'


@pytest.mark.parametrize(
    ("call_", "field"), [(call("COUNT", n="$t"), '"id"'), (call("SEND", title="$t", to="'a'"), '"title"')]
)
def test_record_in_place_of_its_field_is_told_the_field(call_: Statement, field: str) -> None:
    tools = {**TOOLS, "SEND": tool(None, to=STRING, title=STRING)}
    (one,) = found(tree(call_, inputs=INPUTS, types={"Ticket": TICKET}), tools)
    assert (one.code, one.help) == ("CHK044", f"take its field {field}")


def test_a_default_is_of_the_type_of_its_input() -> None:
    def of(type_: Type, default: JSON) -> list[str]:
        one = Input("n", type_, default, is_required=False)
        return codes(Tree((), (one,))) + codes(Tree((), plans=(SubPlan("p", (one,), ()),)))

    assert of(Basic.INT, 3) == of(Basic.DATE, "2026-11-28") == of(Maybe(Basic.STR), None) == []
    assert of(Basic.INT, "3") == of(Basic.DATE, "tomorrow") == of(Basic.STR, None) == ["CHK125", "CHK125"]


@pytest.mark.parametrize(("text", "codes"), [
    ('WAIT ("10s")', []), ("WAIT (3)", []), ('WAIT (duration("1h"))', []), ('WAIT ("soon")', ["CHK123"]),
    ('?REPEAT (max=3, every="10 s") {\nNOTE (1)\n} UNTIL (True)', []),
    ('?REPEAT (max=3, every="soon") {\nNOTE (1)\n} UNTIL (True)', ["CHK123"]),
])  # fmt: skip
def test_a_wait_is_seconds_or_the_text_of_a_duration(text: str, codes: list[str]) -> None:
    plan = read_structured(f"# ltp: 2\n{text}\n@RESPOND (1)\n").require()
    assert [one.code for one in check(plan)] == codes
