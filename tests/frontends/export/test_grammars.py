"""Grammars and the parser agree: sentences parse and pass the checks, and plans are sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from benchmarks.grammars.catalogue import OPERATIONS, TOOLS, VARIANTS, signatures
from benchmarks.grammars.matching import Matcher
from benchmarks.grammars.sentences import Sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.export.covered import MOST_STEPS, covered_plans

from callsheet.frontends.export import (
    ExportOptions,
    Form,
    ToolShape,
    is_sentence,
    plan_gbnf,
    plan_grammar,
    plan_lark,
)
from callsheet.frontends.export.operations import OPERATIONS as SHAPES
from callsheet.frontends.export.rules import Chars
from callsheet.frontends.export.scope import Rules, Scope
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import Goto, Plan
from callsheet.ir.operations import AGENT_OPERATIONS, MODEL_OPERATIONS
from callsheet.passes import check
from callsheet.passes.finding import OPERATIONS as KNOWN

SENTENCES = 150
"""How many random sentences each grammar is tried with here; the benchmark draws 100,000."""

READ = ToolShape(
    "read_file",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "most": {"type": "integer"}},
        "required": ["path"],
    },
)
CANONICAL = ExportOptions(
    form=Form.CANONICAL,
    max_steps=MOST_STEPS,
    operations=OPERATIONS,
    groups=True,
    bare_calls=True,
    jumps=True,
    replans=True,
)


@pytest.fixture(scope="module")
def matchers() -> Mapping[str, Matcher]:
    return {name: Matcher(plan_lark(TOOLS, options)) for name, options in VARIANTS.items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_sentences_parse_and_have_no_errors(variant: str, matchers: Mapping[str, Matcher]) -> None:
    options = VARIANTS[variant]
    sentences = Sentences(plan_grammar(TOOLS, options), Random(variant))
    for _ in range(SENTENCES):
        text = sentences.draw()
        result = parse(text)
        assert result.plan is not None, (text, result.diagnostics)
        found = check(result.plan, tools=signatures(), inputs=options.given)
        assert not [d for d in found if d.is_error or d.code in ("CHK001", "CHK002")], text
        assert matchers[variant].refused_at(text) is None, text


@pytest.mark.parametrize("variant", ["canonical"])
def test_random_canonical_sentences_have_no_loose_spelling(variant: str) -> None:
    sentences = Sentences(plan_grammar(TOOLS, VARIANTS[variant]), Random(0))
    for _ in range(SENTENCES):
        assert parse(sentences.draw()).diagnostics == ()


@pytest.mark.parametrize("variant", VARIANTS)
def test_gbnf_accepts_same_sentences(variant: str) -> None:
    """With the converter from GBNF of llguidance, which omits zeros at the beginning of an escape; the goal
    benchmark uses llama.cpp.
    """
    from llguidance.gbnf_to_lark import gbnf_to_lark

    options = VARIANTS[variant]
    converted = re.sub(r"(?<!\\)\\[uU]([0-9A-F]+)", r"\\x{\1}", gbnf_to_lark(plan_gbnf(TOOLS, options)))
    matcher = Matcher(converted)
    sentences = Sentences(plan_grammar(TOOLS, options), Random(variant))
    for _ in range(SENTENCES // 5):
        text = sentences.draw()
        assert matcher.takes(text), text


@pytest.fixture(scope="module")
def canonical() -> Matcher:
    return Matcher(plan_lark(TOOLS, CANONICAL))


@settings(max_examples=60, deadline=None)
@given(plan=covered_plans())
def test_generated_plans_are_sentences_in_their_canonical_text(plan: Plan, canonical: Matcher) -> None:
    text = format_plan(plan)
    at = canonical.refused_at(text)
    assert at is None, text.encode()[:at].decode(errors="replace")[-200:]


# ---------------------------------------------------------------- what is refused


def lean(*lines: str) -> str:
    return "\n".join(lines)


ASK = ExportOptions(max_steps=4, operations=frozenset({"LLM_SUMMARIZE"}))
GOOD = lean('S1: @read_file (path="a.md") > $v1', 'S2: @respond ("It says", $v1)')
BAD = {
    "an unknown tool": GOOD.replace("read_file", "write_file"),
    "an argument the tool has not": GOOD.replace("path=", "file="),
    "an argument that is missing": GOOD.replace('path="a.md"', "most=3"),
    "an argument given twice": GOOD.replace(")", ", most=3, most=4)", 1),
    "a value of another type": GOOD.replace(")", ', most="many")', 1),
    "a variable that nothing sets": GOOD.replace('("It says", $v1)', "($v2)"),
    "a variable that is set later": lean('S1: @read_file (path="$v2") > $v1', *GOOD.split("\n")[1:]),
    "a reference in a text to what is not set": GOOD.replace("It says", "It says $v2"),
    "a dollar sign before anything else": GOOD.replace("It says", "It costs $5"),
    "a name that goes on behind a reference": GOOD.replace("It says", "It says $v1x"),
    "no end": lean('S1: @read_file (path="a.md") > $v1'),
    "an end that may not be reached": lean(
        'S1: @read_file (path="a.md") > $v1', "S2: ?IF (NOT_EMPTY($v1)) THEN @respond ($v1)"
    ),
    "something behind the end": GOOD + '\nS3: @respond ("more")',
    "an id out of order": GOOD.replace("S2:", "S3:"),
    "another name for a result": GOOD.replace("> $v1", "> $page"),
    "a result that is lost": GOOD.replace(" > $v1", "").replace(", $v1", ""),
    "an item outside of its loop": lean(
        'S1: ?FOREACH ($item IN ["a"]) THEN @read_file (path=$item) > $v1', "S2: @respond ($item)"
    ),
    "an operation that is not allowed": GOOD.replace(
        '@read_file (path="a.md")', '@llm_generate (format="x")'
    ),
    "more steps than there may be": lean(
        *(f'S{n}: @read_file (path="a.md") > $v{n}' for n in range(1, 5)), 'S5: @respond ("x")'
    ),
}


@pytest.fixture(scope="module")
def ask() -> Matcher:
    return Matcher(plan_lark([READ], ASK))


def test_valid_plan_is_accepted(ask: Matcher) -> None:
    assert ask.takes(GOOD)
    assert ask.takes(GOOD.replace("It says", "It says ${v1.lines.0}, $v1.title. Or \\$5"))
    assert ask.takes(
        lean(
            'S1: ?FOREACH ($item IN ["a", "b"]) THEN @read_file (path=$item) > $v1:list ON_FAIL @retry(2)',
            'S2: ?IF (IS_EMPTY($v1)) THEN @terminate ("There is nothing.")',
            'S3: @llm_summarize ($v1, format="one line") > $v2 ON_FAIL @terminate ("No model: $v1")',
            "S4: @respond ($v2)",
        )
    )


@pytest.mark.parametrize("what", BAD)
def test_invalid_plans_are_not_sentences(what: str, ask: Matcher) -> None:
    assert BAD[what] != GOOD
    assert not ask.takes(BAD[what])


def test_given_variables_are_readable_and_not_reassigned() -> None:
    matcher = Matcher(plan_lark([READ], replace(ASK, given=("city", "v1"))))
    assert matcher.takes(lean("S1: @read_file (path=$city) > $v2", 'S2: @respond ("$v1: $v2")'))
    assert not matcher.takes(lean("S1: @read_file (path=$city) > $v1", "S2: @respond ($v1)"))


def test_paths_may_be_restricted_to_known_fields() -> None:
    matcher = Matcher(plan_lark([READ], replace(ASK, fields=frozenset({"title", "names"}))))
    assert matcher.takes(GOOD.replace("$v1)", "$v1.names.0.title)"))
    assert not matcher.takes(GOOD.replace("$v1)", "$v1.count)"))


def test_plan_may_be_required_to_have_results() -> None:
    options = replace(ASK, min_results=2, bare_calls=True)
    matcher = Matcher(plan_lark([READ], options))
    read = 'S1: @read_file (path="a") > $v1'
    assert not matcher.takes(GOOD)
    assert matcher.takes(lean(read, 'S2: @read_file (path="b") > $v2', 'S3: @respond ("x")'))
    assert matcher.takes(
        lean(
            read,
            'S2: ?IF (IS_EMPTY($v1)) THEN @respond ("x")',
            'S3: @read_file (path="b") > $v2',
            "S4: @respond ($v2)",
        )
    )
    sentences = Sentences(plan_grammar([READ], options), Random(1))
    for _ in range(SENTENCES):
        plan = parse(sentences.draw()).plan
        assert plan is not None
        assert sum(step.output is not None for step in plan.steps) >= 2


def test_lean_texts_do_not_begin_like_end_of_call(ask: Matcher) -> None:
    assert not ask.takes(GOOD.replace('"a.md"', '") > @respond ("'))
    assert ask.takes(GOOD.replace('"a.md"', '"a) > b"'))
    assert ask.takes(GOOD.replace('"a.md"', '""'))


def test_group_members_read_variables_set_before_group() -> None:
    matcher = Matcher(plan_lark([READ], replace(ASK, groups=True)))
    group = [
        "@PARALLEL {",
        '  S1: @read_file (path="a") > $v1',
        '  S2: @read_file (path="b") > $v2',
        "}",
        "S3: @respond ($v1, $v2)",
    ]
    assert matcher.takes(lean(*group))
    assert not matcher.takes(lean(*group).replace('path="b"', "path=$v1"))
    assert not matcher.takes(lean(*group[:2], *group[3:]))


def test_numbers_respect_schema_bounds() -> None:
    def takes(schema: Mapping[str, object], *said: str) -> list[bool]:
        tool = ToolShape("t", {"type": "object", "properties": {"n": schema}, "required": ["n"]})
        matcher = Matcher(plan_lark([tool], ExportOptions(max_steps=2)))
        return [matcher.takes(lean(f"S1: @t (n={n}) > $v1", 'S2: @respond ("x")')) for n in said]

    assert takes({"type": "integer", "minimum": -12, "maximum": 107}, "-12", "0", "99", "107") == [True] * 4
    assert (
        takes({"type": "integer", "minimum": -12, "maximum": 107}, "-13", "108", "1.5", "007") == [False] * 4
    )
    assert takes({"type": "number", "minimum": 0, "maximum": 1}, "0", "0.25", "1", "1.5") == [True] * 3 + [
        False
    ]
    assert takes({"type": "number", "exclusiveMinimum": 0}, "0.001", "7", "0", "0.0") == [
        True,
        True,
        False,
        False,
    ]


@settings(max_examples=60, deadline=None)
@given(bounds=st.tuples(st.integers(-3_000, 3_000), st.integers(-3_000, 3_000)).map(sorted))
def test_integers_cover_exactly_their_bounds(bounds: list[int]) -> None:
    from callsheet.frontends.export.rules import Grammar, Rule, as_lark
    from callsheet.frontends.export.values import integers

    low, high = bounds
    node = integers(low, high)
    assert node is not None
    matcher = Matcher(as_lark(Grammar("n", {"n": Rule(node)}, frozenset({"n"}))))
    for number in {low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1, 0, -1, 10, 999, 1000}:
        assert matcher.takes(str(number)) == (low <= number <= high), number


@pytest.mark.parametrize("variant", VARIANTS)
def test_matcher_agrees_with_llguidance(variant: str, matchers: Mapping[str, Matcher]) -> None:
    random, grammar = Random(variant), plan_grammar(TOOLS, VARIANTS[variant])
    sentences = Sentences(grammar, random)
    for _ in range(SENTENCES // 3):
        text = sentences.draw()
        assert is_sentence(grammar, text)
        at = random.randrange(len(text))
        for other in (
            text[:at],
            text[:at] + text[at + 1 :],
            f"{text[:at]}{random.choice('x$(1')}{text[at:]}",
        ):
            assert is_sentence(grammar, other) == matchers[variant].takes(other), other


# ---------------------------------------------------------------- jumps

READS = [f'@read_file (path="{name}") > $' for name in "abc"]
JUMPING = ExportOptions(max_steps=7, jumps=True, replans=True, loops=False, groups=True)


@pytest.fixture(scope="module")
def jumping() -> Matcher:
    return Matcher(plan_lark([READ], JUMPING))


@pytest.mark.parametrize(
    "lines",
    [
        ["S1: {a}v1", "S2: ?IF (IS_EMPTY($v1)) THEN @goto S4", "S3: {b}v2", "S4: @respond ($v1)"],
        ["S1: {a}v1 ON_FAIL @goto S3", "S2: {b}v2", "S3: @respond ($v1)"],
        ["S1: {a}v1 ON_FAIL @retry(2) @goto S4", "S2: {b}v2", "S3: {c}v3", "S4: @respond ($v1)"],
        ["S1: {a}v1", "S2: ?IF ($v1 == 3) THEN @goto S1", "S3: @respond ($v1)"],
        ["S1: {a}v1", "S2: {b}v2", "S3: ?IF (IS_EMPTY($v2)) THEN @goto S1", "S4: @replan ($v2)"],
        [
            *("S1: {a}v1", "S2: ?IF (IS_EMPTY($v1)) THEN @goto S5", "S3: {b}v2", "S4: @goto S6"),
            *("S5: {c}v2", "S6: @respond ($v1, $v2)"),
        ],
        ["S1: {a}v1", 'S2: ?IF (IS_EMPTY($v1)) THEN @replan ("no $v1")', "S3: @respond ($v1)"],
    ],
)
def test_jumps_skip_steps_to_branch_or_go_back(lines: list[str], jumping: Matcher) -> None:
    text = lean(*lines).format(**dict(zip("abc", READS, strict=True)))
    assert jumping.refused_at(text) is None
    plan = parse(text).plan
    assert plan is not None
    assert [d.code for d in check(plan) if d.code != "CHK015"] == []


@pytest.mark.parametrize(
    "lines",
    {
        "a step that is not there": ["?IF (IS_EMPTY($v1)) THEN @goto S9", "{b}v2", "@respond ($v1)"],
        "the end of the plan": ["?IF (IS_EMPTY($v1)) THEN @goto S4", "{b}v2"],
        "itself": ["?IF (IS_EMPTY($v1)) THEN @goto S2", "{b}v2", "@respond ($v1)"],
        "no condition": ["@goto S4", "{b}v2", "@respond ($v1)"],
        "a result that is left out": [
            *("?IF (IS_EMPTY($v1)) THEN @goto S4", "{b}v2", "@respond ($v2)"),
        ],
        "a result of one way alone": [
            *("?IF (IS_EMPTY($v1)) THEN @goto S6", "{b}v2", "{c}v3", "@goto S7", "{b}v2", "@respond ($v3)"),
        ],
    }.items(),
    ids=lambda case: case[0] if isinstance(case, tuple) else str(case),
)
def test_other_jumps_and_conditionally_set_variables_are_refused(
    lines: tuple[str, list[str]], jumping: Matcher
) -> None:
    numbered = [f"S{number}: {line}" for number, line in enumerate(["{a}v1", *lines[1]], 1)]
    assert not jumping.takes(lean(*numbered).format(**dict(zip("abc", READS, strict=True))))


def test_sentences_with_jumps_read_only_variables_set_on_every_path() -> None:
    """Except results of conditional calls, which are null if the condition does not hold."""
    options = replace(VARIANTS["jumps"], max_steps=7, operations=frozenset())
    sentences = Sentences(plan_grammar(TOOLS, options), Random("jumps"))
    jumped = 0
    for _ in range(SENTENCES):
        plan = parse(sentences.draw()).require()
        bare = replace(
            plan,
            steps=tuple(s if isinstance(s.action, Goto) else replace(s, condition=None) for s in plan.steps),
        )
        assert "CHK003" not in {d.code for d in check(bare)}
        jumped += any(isinstance(step.action, Goto) for step in plan.steps)
    assert jumped > SENTENCES / 4


def test_jumps_are_included_only_on_request() -> None:
    assert "goto" not in plan_lark([READ], ExportOptions()).lower()
    assert "replan" not in plan_lark([READ], ExportOptions(jumps=True)).lower()


# ---------------------------------------------------------------- what holds the tables together


def test_exports_list_every_operation_with_arguments() -> None:
    assert set(SHAPES) == set(KNOWN) == MODEL_OPERATIONS | AGENT_OPERATIONS
    for name, shape in SHAPES.items():
        assert {argument for argument, _ in shape.named} <= set(KNOWN[name].names)
        assert {argument for argument, must in shape.named if must} >= set(KNOWN[name].required)


def test_no_alphanumeric_character_may_follow_reference() -> None:
    from callsheet.frontends.export.scope import _AFTER

    assert isinstance(_AFTER, Chars)
    every = "".join(chr(code) for first, last in _AFTER.ranges for code in range(first, last + 1))
    assert not re.search(r"[\w.\[\"$\\]", every)
    assert not any(char.isalnum() for char in every)


def test_rules_use_only_earlier_rules_and_tokens_only_tokens() -> None:
    """Therefore the language is finite, and a lexer may read each token by itself."""
    grammar = plan_grammar(TOOLS, VARIANTS["all constructs"])
    used = {
        name: set(re.findall(r"Use\(name='([^']*)'\)", repr(node))) for name, node in grammar.nodes.items()
    }
    order = {name: number for number, name in enumerate(grammar.rules)}
    assert all(order[other] < order[name] for name, others in used.items() for other in others)
    assert all(used[name] <= grammar.tokens for name in grammar.tokens & used.keys())


def test_grammar_size_is_at_most_quadratic_in_optional_arguments() -> None:
    def size(count: int) -> int:
        fields = {f"field_{number:02}": {"type": "string"} for number in range(count)}
        return len(plan_lark([ToolShape("t", {"properties": fields})], ExportOptions(max_steps=3)))

    assert size(40) < 5 * size(20)


@pytest.mark.parametrize(
    ("tools", "options", "said"),
    [
        ([READ, replace(READ, name="Read-File")], ExportOptions(), "two tools are called READ_FILE"),
        ([replace(READ, name="goto")], ExportOptions(), "no plan can call"),
        ([READ], ExportOptions(operations=frozenset({"LLM_DREAM"})), "not an operation"),
        ([READ], ExportOptions(max_steps=0), "at least 1"),
        ([READ], ExportOptions(given=("a b",)), "not a valid name of a variable"),
        ([READ], ExportOptions(max_steps=3, min_results=3), "less than max_steps"),
    ],
)
def test_invalid_tools_or_options_raise_value_error(
    tools: list[ToolShape], options: ExportOptions, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        plan_lark(tools, options)


def test_tool_needing_unset_variable_is_not_offered() -> None:
    deep: dict[str, object] = {
        "type": "object",
        "required": ["in"],
        "properties": {"in": {"$ref": "#/$defs/deep"}},
    }
    tool = ToolShape(
        "t", {"properties": {"x": {"$ref": "#/$defs/deep"}}, "required": ["x"], "$defs": {"deep": deep}}
    )
    matcher = Matcher(plan_lark([tool, READ], ASK))
    first = 'S1: @read_file (path="a") > $v1'
    assert matcher.takes(lean(first, "S2: @t (x=$v1) > $v2", "S3: @respond ($v2)"))
    assert not matcher.takes(lean("S1: @t (x={}) > $v1", "S2: @respond ($v1)"))


def test_text_rules_are_shared_by_scope() -> None:
    rules = Rules(ExportOptions())
    assert rules.text(Scope(2)) == rules.text(Scope(2)) != rules.text(Scope(3))
