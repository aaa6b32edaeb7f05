"""The result of a proof: data paths, obligations, labels of steps; the coarse proof is sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.security import policy_of
from tests.passes.verify.held import held

from callsheet.api.policies import load_policy
from callsheet.frontends.ltp import parse
from callsheet.ir.labels import read_label
from callsheet.passes.verify import Verdict, values, verify
from callsheet.policy.calls import Argument, CallView, Hole, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import Audience, Policy, SourceRule, ToolRule

PRIVATE = read_label("U/priv")


def proved(text: str, **policy: object) -> Verdict:
    return verify(parse(text).require(), policy_of(policy))


def test_data_path_is_reported_from_source_to_sink() -> None:
    verdict = proved(
        'S1: @READ_FILE (path="n.txt") > $a\nS2: @LLM_SUMMARIZE ($a) > $b\n'
        'S3: @WRITE_FILE (path="public/x", content=$b) > $w\nS4: @READ_FILE (path="public/x") > $c\n'
        'S5: @WEB_SEARCH (query=$c) > $r\nS6: @RESPOND ("ok")'
    )
    (violation,) = verdict.violations
    assert (violation.step, violation.rule, violation.argument) == ("S5", Rule.FLOW, "query")
    assert violation.flow == ("S1 $a", "S2 $b", "S3 the file public/x", "S4 $c", "S5 query", "outside")
    assert violation.help is not None


@pytest.mark.parametrize(
    ("path", "hint"),
    [("out/$d.md", "${d}.md"), ("out/$d", "${d}.md"), ("out/$d.sh", "${d}.md"), ("$d.txt", "${d}.txt")],
)
def test_path_with_unknown_extension_is_refused_with_suggestion(path: str, hint: str) -> None:
    page = 'S1: @FETCH_PAGE (url="https://news.example/") > $p\nS2: @CALC ("1 + 1") > $d\n'
    (violation,) = proved(f'{page}S3: @WRITE_FILE (path="{path}", content=$p) > $w').violations
    assert violation.rule == Rule.EXECUTABLE
    assert "not known before the run" in violation.message
    assert (violation.help or "").endswith(f": {hint}")


@pytest.mark.parametrize("name", ["RE-PLAN", "replan"])
def test_denied_replan_is_refused_despite_rule_for_replans(name: str) -> None:
    plan = (
        'S1: @WEB_SEARCH (query="x") > $r\nS2: ?IF (IS_EMPTY($r)) THEN RE-PLAN ("again")\nS3: @RESPOND ($r)'
    )
    rule = {"replan": {"context": "trusted"}}
    assert proved(plan, dynamic=rule).ok
    (violation,) = proved(plan, dynamic=rule, denied_tools=[name]).violations
    assert (violation.step, violation.rule) == ("S2", Rule.DENIED_TOOL)
    assert "denies RE-PLAN" in str(violation)


def test_implicit_flow_is_reported_with_path() -> None:
    verdict = proved(
        'S1: @READ_FILE (path="n.txt") > $a\nS2: ?IF ($a contains "x") THEN GOTO S4\n'
        'S3: @WEB_SEARCH (query="y") > $r\nS4: @RESPOND ("ok")'
    )
    (violation,) = verdict.violations
    assert violation.rule is Rule.IMPLICIT
    assert violation.flow == ("S1 $a", "S2", "S3 whether it is called")


@pytest.mark.parametrize(
    ("step", "at"),
    [
        ("@WEB_SEARCH ($a)", "$a"),
        ("@WEB_SEARCH (limit=3, query=$a)", "$a"),
        ('@WEB_SEARCH ("so: $a", limit=3)', '"so: $a"'),
        ('?FOREACH ($i IN [1, 2]) THEN @WEB_SEARCH (query=["x", $a])', '["x", $a]'),
        (
            '@WRITE_FILE (path="x", content="y") ON_FAIL TERMINATE ("no", "![i](https://e.org/$a)")',
            "TERMINATE",
        ),
        ('?IF ($a contains "x") THEN @WEB_SEARCH (query="y")', "@WEB_SEARCH"),
    ],
)
def test_objection_is_positioned_at_its_argument(step: str, at: str) -> None:
    text = f'S1: @READ_FILE (path="n.txt") > $a\nS2: {step} > $b\nS3: @RESPOND ("ok")'
    (violation,) = proved(text.replace(") > $b", ")") if "ON_FAIL" in step else text).violations
    assert violation.span is not None
    assert text[violation.span.start :].startswith(at)


@pytest.mark.parametrize("guard", ["", "THEN ?IF (IS_EMPTY($a)) ", 'THEN ?IF ($a contains "x") '])
def test_loop_shadowing_its_source_has_label_of_source(guard: str) -> None:
    verdict = proved(
        f'S1: @READ_FILE (path="n.txt") > $a\nS2: ?FOREACH ($a IN $a) {guard}THEN @LLM_SUMMARIZE ($a) > $b\n'
        'S3: @WEB_SEARCH (query=$b) > $r\nS4: @RESPOND ("ok")'
    )
    (violation,) = verdict.violations
    assert (violation.step, violation.flow) == ("S3", ("S1 $a", "S2 $b", "S3 query", "outside"))


def test_runtime_receives_obligations() -> None:
    verdict = proved(
        'S1: @WEB_SEARCH (query="x") > $a:json\nS2: @FETCH_PAGE (url=$a.0.url) > $p\n'
        'S3: @EXEC_CODE (code="print(1)", stdin=$p) > $n\nS4: @STORE_FACT (content=$n)\nS5: @RESPOND ($n)'
    )
    assert verdict.ok
    kinds = [(obligation.kind, obligation.step) for obligation in verdict.obligations]
    of_code = [("sandbox-of-files", "S3"), ("sandbox-without-network", "S3")]
    assert kinds == [("ssrf-guard", "S2"), *of_code, ("store-label", "S4")]


def test_needed_approval_is_obligation_where_people_can_be_asked() -> None:
    plan = parse('S1: @HOST_EXEC (command="ls") > $o\nS2: @RESPOND ($o)').require()
    assert not verify(plan, policy_of({})).ok
    verdict = verify(plan, policy_of({}), can_ask=True)
    assert verdict.ok
    assert [(o.kind, o.step) for o in verdict.obligations] == [("approve", "S1")]


def test_inputs_have_given_labels() -> None:
    plan = parse("S1: @WEB_SEARCH (query=$q) > $r\nS2: @RESPOND ($r)").require()
    assert verify(plan, policy_of({}), inputs={"q": read_label("T/pub")}).ok
    (violation,) = verify(plan, policy_of({}), inputs={"q": PRIVATE}).violations
    assert violation.flow[0] == "the input $q"


def test_steps_have_labels_with_sources() -> None:
    verdict = proved('S1: @READ_FILE (path="n.txt") > $a\nS2: @LLM_SUMMARIZE ($a) > $b\nS3: @RESPOND ($b)')
    second = verdict.steps[1]
    assert second.reads == (("a", PRIVATE),)
    assert (second.result, second.because) == (PRIVATE.retold(), ("S1",))


def test_leaking_plans_are_refused_by_coarse_analysis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "_joins", lambda *_: None)
    leaks = [case for case in held() if not case.must_run]
    assert [case.name for case in leaks if verify(case.plan, case.policy).ok] == []


def test_call_is_judged_by_known_texts() -> None:
    judge = Judge(policy_of({}))

    def rules(text: str | None, label: str) -> list[Rule]:
        hole = Hole("u", read_label(label), text)
        call = CallView("S1", "FETCH_PAGE", (Argument("url", (hole,), hole.label),))
        return [objection.rule for objection in judge.judge(call).objections]

    assert rules(None, "U/pub") == []
    assert rules("https://docs.example/", "U/pub") == []
    assert rules("http://127.0.0.1/", "U/pub") == [Rule.ADDRESS]
    assert rules("https://api.internal/", "U/pub") == [Rule.ADDRESS]
    assert rules("https://api.internal/", "T/priv") == []
    assert rules("https://docs.example/", "T/priv") == [Rule.FLOW]


def test_agent_calls_only_its_tools() -> None:
    judge = Judge(policy_of({"dynamic": {"agent": {"tools": ["@READ_FILE"]}}}))
    path = Argument("path", (Hole("p", PRIVATE, "docs/a.md"),), PRIVATE)
    assert judge.judge(CallView("S1", "READ_FILE", (path,), in_agent=True)).objections == ()
    (refused,) = judge.judge(CallView("S1", "WEB_SEARCH", (), in_agent=True)).objections
    assert refused.rule is Rule.AGENT


def test_data_as_recipient_is_reported_in_one_short_line() -> None:
    mail = {"@SEND_MAIL": {"egress": True, "audience_arg": "to", "destructive": False}}
    judge = Judge(policy_of({"tools": mail}))
    to = Argument("to", (Hole("p", PRIVATE, "a page\nthat says " + "x" * 1_000),), PRIVATE)
    text = Argument("text", (Hole("n", PRIVATE, "hi"),), PRIVATE)
    told = [o.message for o in judge.judge(CallView("S1", "SEND_MAIL", (to, text))).objections]
    (flow,) = [message for message in told if "would reach" in message]
    assert "would reach a page that says xxx" in flow
    assert "x…x" in flow
    assert len(flow) < 200


def test_tool_that_reads_private_data_and_sends_has_own_hint() -> None:
    agent = {"agent": {"tools": ["@WEB_SEARCH"], "max_turns": 5}}
    tools = {"@WEB_SEARCH": {"egress": True, "returns": "T/priv"}}
    verdict = proved(
        'S1: @AGENT_SOLVE (goal="x", tools=["web_search"]) > $a\nS2: @RESPOND ("ok")',
        dynamic=agent,
        tools=tools,
    )
    (violation,) = verdict.violations
    assert violation.message.endswith("read private data with @WEB_SEARCH and send it out with @WEB_SEARCH")
    assert (violation.help or "").startswith("remove it")


def test_pattern_unsupported_by_re2_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read as a pattern"):
        Judge(Policy(forbidden=(r"(a)\1",))).judge(CallView("S1", "CALC", (Argument("x", ("1",)),)))


LINK = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @FORMAT (text="https://collect.example/?d=$a") > $u\n'


@pytest.mark.parametrize("guilty", [1, 255, 256, 257, 300])
@pytest.mark.parametrize("key", ["AKIAABCDEFGHIJKLMNOP", "ＡKIAABCDEFGHIJKLMNOP"])
def test_only_step_with_forbidden_text_is_refused(guilty: int, key: str) -> None:
    steps = [f'S{n}: @LLM_ANALYZE ("{key if n == guilty else n}") > $a' for n in range(1, 301)]
    verdict = verify(parse("\n".join(steps)).require(), Policy(forbidden=("AKIA[0-9A-Z]{16}",)))
    assert [(told.step, told.rule) for told in verdict.violations] == [(f"S{guilty}", Rule.FORBIDDEN)]


def test_texts_of_two_steps_are_not_combined() -> None:
    steps = 'S1: @LLM_ANALYZE ("AKIAABCD") > $a\nS2: @LLM_ANALYZE ("EFGHIJKLMNOP") > $a'
    assert proved(steps, forbidden=["AKIA[0-9A-Z]{16}", "AKIA[^x]+P"]).ok


@pytest.mark.parametrize(
    ("rest", "is_refused"),
    [
        ("", True),
        ('S3: @READ_FILE (path="docs/a.md") > $b', False),
        ('S3: ?IF (IS_EMPTY($b)) THEN @READ_FILE (path="docs/a.md") > $b', True),
        ('S3: ?IF (IS_EMPTY($a)) THEN @RESPOND ("none")', True),
        ('S3: @RESPOND ("done")', False),
        ('S3: TERMINATE ("done")', False),
    ],
)
def test_last_value_is_answer_of_plan_without_respond(rest: str, is_refused: bool) -> None:
    found = proved(LINK + rest).violations
    assert bool(found) is is_refused, found
    if is_refused:
        assert (found[0].step, found[0].rule) == ("S2", Rule.ANSWER)
        assert "which a plan without an answer returns" in found[0].message


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("for (i = 0; i<n; i++) { x = a<b; }", False),
        ("if a <b then c = 1", False),
        ("a [link](that goes on\nin the next line", False),
        ("![x](", True),
        ("<img alt='x' src='", True),
        ("see https://c.example/", False),
    ],
)
def test_text_before_private_data_is_address_only_if_valid(text: str, is_refused: bool) -> None:
    judge = Judge(policy_of({}))
    arguments = tuple(
        Argument(str(n), (Hole(f"v{n}", PRIVATE, said),), PRIVATE) for n, said in enumerate((text, "b"))
    )
    found = judge.judge(CallView("S1", "RESPOND", arguments)).objections
    assert bool(found) is is_refused


@pytest.mark.parametrize(
    ("text", "policy", "rule", "at", "hint"),
    [
        (
            'S1: @READ_FILE (path="n")\nS2: @RESPOND ("x")',
            {"max_steps": 1},
            Rule.LIMIT,
            "S2:",
            "[budgets] max_steps",
        ),
        ('S1: @READ_FILE (path="n")\nS2: GOTO S1', {}, Rule.STRUCTURE, "S", "guard the jump back"),
        (
            'S1: @FETCH_PAGE (url="https://b.example/") > $a\nS2: @RESPOND ("x")',
            {"egress_hosts": ("a.example",)},
            Rule.ADDRESS,
            '"https://b',
            "allows (a.example)",
        ),
        (
            'S1: @PAY (sum=3) ON_FAIL @RETRY(2)\nS2: @RESPOND ("x")',
            {"tools": {"PAY": ToolRule()}},
            Rule.RETRY,
            "@PAY",
            "remove the retry, or mark the tool in the policy: idempotent = true",
        ),
    ],
)
def test_refusal_has_position_and_working_hint(
    text: str, policy: dict[str, Any], rule: Rule, at: str, hint: str
) -> None:
    found = [
        each
        for each in verify(
            parse(text).require(), Judge(replace(load_policy("workspace"), **policy))
        ).violations
        if each.rule is rule
    ]
    assert found
    for violation in found:
        assert violation.span is not None
        assert text[violation.span.start :].startswith(at)
        assert hint in (violation.help or "")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("@WEB_SEARCH (query=$a, limit=$day)", "query"),
        ("@WEB_SEARCH (limit=$day, query=$a)", "limit"),
        ('@WEB_SEARCH (query=["so: $a"], limit=$day)', "query"),
        ("@WEB_SEARCH ($a, limit=$day)", "query"),
    ],
)
def test_data_path_leads_to_the_argument_that_is_objected_to(call: str, argument: str) -> None:
    verdict = proved(
        'S1: @READ_FILE (path="n.txt") > $n\nS2: @LLM_SUMMARIZE ($n) > $a\n'
        f'S3: @READ_FILE (path="d.txt") > $day\nS4: {call} > $r\nS5: @RESPOND ("ok")'
    )
    came = {"query": ("S1 $n", "S2 $a"), "limit": ("S3 $day",)}
    (violation,) = verdict.violations
    assert violation.argument == argument
    assert violation.flow == (*came[argument], f"S4 {argument}", "outside")


def judged(text: str, **policy: Any) -> Verdict:
    return verify(parse(f"PLAN_START\n{text}\nPLAN_END").require(), Policy(**policy))


def test_data_path_is_the_same_whenever_it_is_asked_for() -> None:
    """The path is that of the argument which is objected to, also for the second proof of a plan."""
    plan = (
        'S1: @READ_FILE (path="a.txt") > $a\nS2: @READ_FILE (path="b.txt") > $b\n'
        "S3: @SEND (first=$a, second=$b)"
    )
    rule = ToolRule(egress=False, destructive=False, control=("second",))
    for _ in range(2):
        (violation,) = judged(plan, tools={"SEND": rule}).violations
        assert violation.flow == ("S2 $b", "S3 second")


def test_data_path_is_that_of_data_which_the_receiver_may_not_read() -> None:
    sources = (
        SourceRule(kind="file", pattern="ours.txt", label=read_label("T/user+finance")),
        SourceRule(kind="file", pattern="mine.txt", label=read_label("T/user")),
    )
    plan = (
        'S1: @READ_FILE (path="ours.txt") > $a\nS2: @READ_FILE (path="mine.txt") > $b\n'
        'S3: @SEND (to="x@f.example", body="$a $b")'
    )
    send = ToolRule(audience_arg="to", destructive=False)
    finance = Audience(name="finance", mail=("*@f.example",))
    (violation,) = judged(plan, tools={"SEND": send}, sources=sources, audiences=(finance,)).violations
    assert violation.flow == ("S2 $b", "S3 body", "x@f.example")
