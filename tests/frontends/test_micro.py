"""The meaning of Micro-CLI, expressed in LTP text; and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callsheet.diagnostics import CallsheetError, fixes_of, render_all
from callsheet.frontends.ltp import parse
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.ir import Literal, Order, Plan, Respond, Step

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus" / "micro"
PAGE = (ROOT / "docs" / "micro.md").read_text(encoding="utf-8")

COMMANDS = [
    ('search "q"', '@WEB_SEARCH (query="q")'),
    ('fetch "https://x.test/a?b=1"', '@FETCH_PAGE (url="https://x.test/a?b=1")'),
    ('exec "print(2 > 1)" > r', '@EXEC_CODE (code="print(2 > 1)", language="python") > $r'),
    ('exec "a\nb"', '@EXEC_CODE (code="a\\nb", language="python")'),
    ("exec r\"print('$x')\"", '@EXEC_CODE (code=r"print(\'$x\')", language="python")'),
    ('exec "1" language="javascript"', '@EXEC_CODE (code="1", language="javascript")'),
    ('shell "ls"', '@EXEC_CODE (code="ls", language="shell")'),
    ('read "p"', '@READ_FILE (path="p")'),
    ('write "p" $x.y', '@WRITE_FILE (path="p", content=$x.y)'),
    ('edit "p" "old" "new"', '@EDIT_FILE (path="p", old="old", new="new")'),
    ('find "x"', '@SEARCH_FILES (pattern="x")'),
    ('memory "q"', '@QUERY_MEMORY (query="q")'),
    ('store "fact" 0.8', '@STORE_FACT (content="fact", importance=0.8)'),
    ('store "fact"', '@STORE_FACT (content="fact")'),
    ('set "k" [1, $x]', '@SET_WM (key="k", value=[1, $x])'),
    ('get "k"', '@GET_WM (key="k")'),
    ("install python a b", '@INSTALL_PKG (language="python", packages=["a", "b"])'),
    ("install python $names", '@INSTALL_PKG (language="python", packages=$names)'),
    ('host "ls"', '@HOST_EXEC (command="ls")'),
    ('hostread "/a"', '@HOST_FILE_READ (path="/a")'),
    ('hostlist "/"', '@HOST_FILE_LIST (path="/")'),
    ('extract $x "city"', '@LLM_EXTRACT ($x, target="city")'),
    ('classify $x "bug, feature"', '@LLM_CLASSIFY ($x, categories=["bug", "feature"])'),
    ('classify $x "bug" "feature"', '@LLM_CLASSIFY ($x, categories=["bug", "feature"])'),
    ('classify $x $y "a bug" "b" "c"', '@LLM_CLASSIFY ($x, $y, categories=["a bug", "b", "c"])'),
    ('classify "a text" "bug" "feature"', '@LLM_CLASSIFY ("a text", categories=["bug", "feature"])'),
    ('classify $x "a hint" "bug,feature"', '@LLM_CLASSIFY ($x, "a hint", categories=["bug", "feature"])'),
    ('classify $x "bug"', '@LLM_CLASSIFY ($x, categories=["bug"])'),
    ("classify $x $kinds", "@LLM_CLASSIFY ($x, categories=$kinds)"),
    ("summarize $x", "@LLM_SUMMARIZE ($x)"),
    ('summarize $x "one line"', '@LLM_SUMMARIZE ($x, format="one line")'),
    ("summarize $x $y", "@LLM_SUMMARIZE ($x, $y)"),
    ('analyze $a $b "compare"', '@LLM_ANALYZE ($a, $b, task="compare")'),
    ('evaluate $x "is it so?"', '@LLM_EVALUATE ($x, condition="is it so?")'),
    ('generate $x "report"', '@LLM_GENERATE (context=$x, format="report")'),
    ('generate "a poem"', '@LLM_GENERATE (format="a poem")'),
    ('translate $x "fr"', '@LLM_TRANSLATE ($x, target_lang="fr")'),
    ('agent "goal"', '@AGENT_SOLVE (goal="goal")'),
    ('agent "goal" code 4', '@AGENT_SOLVE (goal="goal", agent="code", max_turns=4)'),
    ('agent "goal" 4', '@AGENT_SOLVE (goal="goal", max_turns=4)'),
    ('critique $x "style"', '@AGENT_CRITIQUE ($x, criteria="style")'),
    ('consensus $a $b "topic"', '@CONSENSUS ($a, $b, topic="topic")'),
    ('self_refine $x "goal" 3', '@SELF_REFINE ($x, goal="goal", rounds=3)'),
    ('select $x "a[0]"', '@SELECT ($x, query="a[0]")'),
    ('calc "$a * 2"', '@CALC ("$a * 2")'),
    ('format "to $a"', '@FORMAT ("to $a")'),
    ("memory_stats > s", "@MEMORY_STATS > $s"),
    ('send_mail "a" $b cc="c"', '@SEND_MAIL ("a", $b, cc="c")'),
    ('@notify "a"', '@NOTIFY ("a")'),
    ('respond "a" $b 1', '@RESPOND ("a", $b, 1)'),
    ("respond", "@RESPOND"),
    ('terminate "no"', 'TERMINATE ("no")'),
    ("terminate", "TERMINATE"),
    ("goto S4", "GOTO S4"),
    ("goto s4", "GOTO S4"),
    ('replan "why $x"', 'RE-PLAN ("why $x")'),
    ('search "$x" > n:int', "@WEB_SEARCH (query=$x) > $n:int"),
    ("read $p > $t", "@READ_FILE (path=$p) > $t"),
    ("read $p ON_FAIL retry 3", "@READ_FILE (path=$p) ON_FAIL @RETRY(3)"),
    ("read $p ON_FAIL retry 3 goto S9", "@READ_FILE (path=$p) ON_FAIL @RETRY(3) GOTO S9"),
    ("read $p on_fail retry 3 ON_FAIL goto S9", "@READ_FILE (path=$p) ON_FAIL @RETRY(3) GOTO S9"),
    ("read $p ON_FAIL retry 1 delay=2", "@READ_FILE (path=$p) ON_FAIL @RETRY(1, delay=2)"),
    ('read $p > t ON_FAIL terminate "x" $t', '@READ_FILE (path=$p) > $t ON_FAIL TERMINATE ("x", $t)'),
    ("?if $r empty : goto S2", "?IF (IS_EMPTY($r)) THEN GOTO S2"),
    ("?if $r is not empty : goto S2", "?IF (NOT_EMPTY($r)) THEN GOTO S2"),
    ("?if $r notempty : goto S2", "?IF (NOT_EMPTY($r)) THEN GOTO S2"),
    ('?if $r contains "a : b" : goto S2', '?IF ($r contains "a : b") THEN GOTO S2'),
    ('?if $r not contains "a" : goto S2', '?IF (NOT ($r contains "a")) THEN GOTO S2'),
    ("?if n > 5 and not (m == 1 or $k empty) : goto S2", None),
    ('foreach $t $p.items : search "$t" > h', "?FOREACH ($t IN $p.items) THEN @WEB_SEARCH (query=$t) > $h"),
    ('foreach t in ts : classify t "a,b" > k', None),
    ("foreach $t in $ts : ?if $t.n > 1 : read t.path > x", None),
]
LTP = {
    "?if n > 5 and": "?IF ($n > 5 AND NOT ($m == 1 OR IS_EMPTY($k))) THEN GOTO S2",
    "foreach t in": '?FOREACH ($t IN $ts) THEN @LLM_CLASSIFY ($t, categories=["a", "b"]) > $k',
    "foreach $t in": "?FOREACH ($t IN $ts) THEN ?IF ($t.n > 1) THEN @READ_FILE (path=$t.path) > $x",
}


@pytest.mark.parametrize(("micro", "ltp"), COMMANDS, ids=[micro for micro, _ in COMMANDS])
def test_command_means_same_as_ltp_step(micro: str, ltp: str | None) -> None:
    if ltp is None:
        ltp = next(step for begin, step in LTP.items() if micro.startswith(begin))
    result = parse_micro(micro)
    assert result.require() == parse(f"S1: {ltp}").require()
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert parse_micro(format_micro(result.require())).plan == result.plan


def test_bare_word_is_variable_set_before_or_text() -> None:
    result = parse_micro('respond a\nsearch "x" > a\nwrite "o.txt" a\nrespond a.b "a"')
    assert (
        result.require()
        == parse(
            'S1: @RESPOND ("a")\nS2: @WEB_SEARCH (query="x") > $a\n'
            'S3: @WRITE_FILE (path="o.txt", content=$a)\nS4: @RESPOND ($a.b, "a")'
        ).require()
    )
    assert [d.code for d in result.diagnostics] == ["MIC103"]


@pytest.mark.parametrize("line", ["search “tea” > r", "respond “hi”", "respond ‘hi’", "write a.txt «x»"])
def test_quoted_text_of_print_is_no_bare_word(line: str) -> None:
    result = parse_micro(line)

    assert [d.code for d in result.diagnostics if d.is_error] == ["LTP032"]
    assert parse_micro("respond it’s").plan is not None


def test_mistyped_variable_is_warning_with_suggestion() -> None:
    found = parse_micro('search "x" > summary\nrespond sumary').diagnostics
    assert [(d.code, str(d.severity), d.help) for d in found] == [
        ("MIC103", "warning", "did you mean $summary?")
    ]


TWO = 'search "a" > r\nrespond $r\n'


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TWO}```",
        f"Here is the plan:\n\n```micro\n{TWO}```\nIt looks for `a` > b and $r.",
        '1. search "a" > r\n2. respond $r',
        '- search "a" > r\n\n# a remark\n- respond $r',
        '* **S1:** search "a" > r\n* **S2:** respond $r',
        'Step 1: `search "a" > r`\nStep 2: `respond $r`',
        f"Search for the words, then answer.\n{TWO}This answers with what was found.",
        f"PLAN_START\n{TWO}PLAN_END",
        f"\ufeff{TWO}".replace("\n", "\r\n"),
        'search("a") > $r\nrespond ($r)',
        'S1: @WEB_SEARCH (query="a") > $r\nS2: @RESPOND ($r)',
    ],
)
def test_prose_around_commands_is_ignored(text: str) -> None:
    result = parse_micro(text)
    assert result.plan == parse_micro(TWO).plan, render_all(result.diagnostics, result.source)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('serch "a"', "MIC012", "did you mean search?"),
        ('if $x > 3 : respond "a"', "MIC012", "did you mean ?if?"),
        ("for x in xs : get_x x", "MIC012", "did you mean foreach?"),
        ("search", "MIC013", "write search"),
        ('search "a" "b"', "MIC013", "write search"),
        ('else : respond "a"', "MIC015", "opposite"),
        ('terminate "none" if r empty', "MIC017", "before its command"),
        ('?if 1 > 2 : respond "a" else respond "b"', "MIC017", "there is no else"),
        ('replan "why" unless $r empty', "MIC017", "before its command"),
        ('fetch "u" ON_FAIL terminate "off" if r empty', "MIC017", "before its command"),
        ("foreach $x $xs : foreach $y $x : get_x $y", "MIC017", "of its own"),
        ("?if $x == 1 respond", "MIC017", "write ?if"),
        ("?if $x : respond", "MIC040", "notempty"),
        ("?if $x === 1 : respond", "MIC040", "did you mean ==?"),
        ('search "a" -> b', "MIC050", "write > name"),
        ('search "a" > b:integer', "MIC051", "did you mean int?"),
        ('search "a" ON_FAIL rety 2', "MIC060", "did you mean retry?"),
        ("goto", "MIC018", "goto S4"),
        ('search "a > r', "LTP020", "end it"),
        ("respond [1, 2", "LTP021", "write ]"),
        ('search "a" > r respond $r', "MIC019", "one line"),
    ],
)
def test_error_has_position_and_hint_and_parsing_continues(text: str, code: str, said: str) -> None:
    result = parse_micro(f'get_a > a\n{text}\nrespond "last"')
    assert result.plan is None
    errors = [d for d in result.diagnostics if d.is_error]
    assert [d.code for d in errors] == [code]
    assert said in (errors[0].help or "")
    assert errors[0].span is not None
    assert result.source.position(errors[0].span.start).line == 2
    assert [step.id for step in result.partial.steps] == ["S1", "S3"]


@pytest.mark.parametrize("last", ['if x > 3 : respond "y"', "for x in xs : get_x x", "serch hits"])
def test_meaningful_line_after_plan_is_no_prose(last: str) -> None:
    assert parse_micro(f"{TWO}{last}").plan is None


def test_commands_in_two_fences_are_not_one_plan() -> None:
    assert parse_micro(f'```\n{TWO}```\nor else\n```\nrespond "b"\n```').plan is None


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan((Step("A", Respond(())),)), "'A'"),
        (Plan((Step("S2", Respond(())),)), "'S2'"),
        (Plan((Step("S1", Respond(()), title="t"),)), "title of S1"),
        (Plan((Step("S1", Respond(()), depends_on=()),)), "dependencies of S1"),
        (Plan((Step("S1", Respond((Literal(float("inf")),))),)), "S1"),
        (Plan((Step("S1", Respond(())),), Order.DAG), "dependencies"),
        (Plan((Step("S1", Respond(())),), variables=(("x", Literal(1)),)), "initial variables"),
        (Plan(()), "without steps"),
    ],
)
def test_plans_that_micro_cli_cannot_express_are_refused_with_step(plan: Plan, said: str) -> None:
    with pytest.raises(CallsheetError, match=re.escape(said)) as caught:
        format_micro(plan)
    assert caught.value.diagnostics[0].code == "MIC070"


def test_nodes_have_positions() -> None:
    text = 'get_a > a\n?if a > 1 : search "x y" > r ON_FAIL retry 2\n'
    step = parse_micro(text).require().steps[1]
    spans = [step.span, step.condition and step.condition.span, step.output and step.output.span]
    assert [text[slice(*span)] if span else "" for span in spans] == [text.split("\n")[1], "a > 1", "> r"]


# ---------------------------------------------------------------- files and the page


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.micro")), ids=lambda path: path.stem)
def test_corpus_plan_prints_back_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    result = parse_micro(text, path.name)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert format_micro(result.require()) == text


@pytest.mark.parametrize("block", re.findall(r"^```micro\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_page_blocks_are_plans(block: str) -> None:
    result = parse_micro(block)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('respond "x " + r', 'respond "x $r"'),
        ('respond "n" + r.a + "b"', 'respond "n${r.a}b"'),
        ('write "o" "x"+$r', 'write "o" "x$r"'),
        ('write "o" "x"+r+" y" > z', 'write "o" "x$r y" > z'),
        ('send_mail to=r + ".txt"', 'send_mail to="${r}.txt"'),
        ('get "k" > s ON_FAIL terminate "no: " + r', 'get "k" > s ON_FAIL terminate "no: $r"'),
    ],
)
def test_values_joined_with_plus_are_error_with_fix(written: str, meant: str) -> None:
    text = f'get "k" > r\n{written}'
    (found,) = [d for d in parse_micro(text).diagnostics if d.is_error]
    assert found.code == "MIC014"
    ((edit,),) = (fix.edits for fix in fixes_of(found, text))
    assert text[: edit.span.start] + edit.text + text[edit.span.end :] == f'get "k" > r\n{meant}'


def test_sum_of_variables_is_error_without_guess() -> None:
    (found,) = [d for d in parse_micro('get "k" > r\nrespond $r + $r').diagnostics if d.is_error]
    assert (found.code, found.fix) == ("MIC014", None)


def test_plus_that_joins_nothing_is_no_error() -> None:
    assert parse_micro('find "+"\nfind c++\nrespond 1 +5').require()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if a:\n    respond a", "?if a notempty : before each"),
        ('if a:\n    respond a\nrespond "b"', "write if a { and }"),
        ("?if $a notempty {\n    respond a\n}", "write if $a { and }"),
        ("?if a.n > 3 :\n    respond a", "?if a.n > 3 : before each"),
        ("for x in a:\n    search x > y", "foreach x in a : before each"),
        ('while a.n > 3:\n    search "b" > r', "repeat (max=30) while (a.n > 3) {"),
    ],
)
def test_a_body_below_a_condition_or_a_loop_is_one_error_with_a_way_out(body: str, said: str) -> None:
    result = parse_micro(f'get_a > a\n{body}\nrespond "last"')
    assert result.plan is None
    (error,) = [one for one in result.diagnostics if one.is_error]
    assert error.code == "MIC021"
    assert said in (error.help or "")
    assert error.span is not None
    assert result.source.position(error.span.start).line == 2
    assert next(step.id for step in result.partial.steps) == "S1"


def test_a_heading_that_reads_as_a_condition_is_prose_before_the_plan() -> None:
    assert parse_micro("If the capital is asked for:\n  get_a > a\n  respond a").plan is not None
