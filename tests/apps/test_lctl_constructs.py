"""`callsheet lctl emit`: how each construct of a plan is reported, from real runs."""

from __future__ import annotations

import json

import pytest

from callsheet import AgentTask, Runtime
from callsheet.lctl import DebugDocument, Handoff, check, read


def run(machine, *lines, code=0, options=()):
    plan = machine.plan(*lines)
    said = machine("run", plan, "--tools", machine.tools, "--run-id", "r1", *options)
    assert said.exit_code == code, said.output


def emitted(machine, *options):
    said = machine("lctl", "emit", "r1", *options)
    assert said.exit_code == 0, said.output
    document = read(said.stdout).document
    assert isinstance(document, Handoff | DebugDocument)
    assert check([document]).is_ok, check([document]).findings
    return document


def texts(document):
    return {name: fact.text for name, fact in document.facts.items()}


def test_hop_is_current_position_or_named_step(machine):
    run(
        machine,
        "S1: @ADD (a=1) > $a",
        'S2: @ASK_HUMAN ("go on with $a?") > $yes',
        "S3: @RESPOND ($a)",
        code=4,
    )
    waiting = emitted(machine)
    assert (waiting.chain.source, waiting.chain.target) == ("S1:@ADD", "S2:@ASK_HUMAN")
    assert machine("approve", "r1", "--answer", "yes").exit_code == 0
    assert machine("resume", "r1").exit_code == 0
    ended = emitted(machine)
    assert ended.chain.target == "caller"
    assert emitted(machine, "--step", "S1").chain.source == "S1:@ADD"


def test_entry_is_step_in_execution_order_and_group_shares_number(machine):
    run(
        machine,
        "@PARALLEL {",
        '  S1: @LOOK (path="a", wait=0.2) > $late',
        "  S2: @ADD (a=1) > $early",
        "}",
        "S3: @RESPOND ($early, $late)",
    )
    told = [(e.step, e.agent, e.parallel) for e in emitted(machine).entries]
    assert told == [
        (1, "caller", False),
        (2, "S1:@LOOK", True),
        (2, "S2:@ADD", True),
        (3, "S3:RESPOND", False),
    ]


def test_fact_is_write_with_variable_short_form_and_hash(machine):
    run(machine, "S1: @BULK (size=5000) > $a", "S2: @ADD (a=1) > $a", "S3: @RESPOND ($a)")
    first, second = texts(emitted(machine)).values()
    assert first.startswith('$a = "xxxx')
    assert "5,002 characters, sha256" in first
    assert len(first) < 300
    assert second == "$a = 2"


def test_rewritten_value_is_never_modified_fact(machine):
    run(machine, "S1: @ADD (a=1) > $a", "S2: @ADD (a=1) > $a", "S3: @RESPOND ($a)")
    document = emitted(machine)
    assert [(e.facts_added, e.facts_modified) for e in document.entries] == [
        ((), ()),
        (("F1",), ()),
        (("F2",), ()),
        ((), ()),
    ]


def test_facts_read_by_pending_steps_are_critical_and_others_are_context(machine):
    run(machine, "S1: @ADD (a=1) > $a", "S2: @ADD (a=2) > $b", "S3: @ADD (a=$a) > $c", "S4: @RESPOND ($c)")
    document = emitted(machine, "--step", "S2")
    assert (document.critical, document.lists.context) == (("F1",), ("F2",))


def test_skipped_step_is_entry_without_facts(machine):
    run(
        machine,
        "S1: @ADD (a=1) > $a",
        "S2: ?IF ($a > 5) THEN @ADD (a=$a) > $b",
        "S3: @RESPOND ($a)",
    )
    entry = emitted(machine).entries[2]
    assert entry.action == "SKIPPED: the condition does not hold; decided by $a (F1)"
    assert (entry.confidence, entry.facts_added) == (1.0, ())


def test_foreach_is_one_entry_and_items_are_listed_on_request(machine):
    run(
        machine,
        "S1: ?FOREACH ($i IN [1, 2]) THEN @ADD (a=$i) > $all",
        "S2: @RESPOND ($all)",
    )
    assert [e.agent for e in emitted(machine).entries] == ["caller", "S1:@ADD", "S2:RESPOND"]
    assert texts(emitted(machine)) == {"F1": "$all = [2, 3]"}
    items = emitted(machine, "--items")
    assert texts(items) == {"F1": "$all = [2, 3]", "F1-0": "$all.0 = 2", "F1-1": "$all.1 = 3"}
    assert items.facts["F1"].confidence == min(items.facts[i].confidence for i in ("F1-0", "F1-1"))


def test_attempts_are_one_entry_with_count_and_warning(machine):
    run(
        machine,
        'S1: @FAIL (text="no") > $a ON_FAIL @RETRY (2, delay=0)',
        'S2: @RESPOND ("done")',
        options=("--retry-delay", "0"),
    )
    document = emitted(machine)
    assert document.entries[1].action == "FAILED: called @FAIL (3 attempts)"
    assert "S1:@FAIL took 3 attempts" in document.lists.warnings


def test_error_of_continued_step_has_no_confidence_and_is_not_handed_on(machine):
    run(
        machine,
        'S1: @FAIL (text="no") > $a',
        'S2: ?IF ($a contains "no") THEN @ADD (a=1) > $b',
        "S3: @RESPOND ($b)",
    )
    document = emitted(machine, "--step", "S1")
    assert (document.facts["F1"].confidence, document.handed_on) == (0.0, ())
    assert "is needed and is not passed on" in document.lists.warnings[0]
    after = emitted(machine)
    assert after.entries[2].action == "called @ADD; decided by $a (F1)"
    assert after.facts["F2"].confidence == 0.95
    assert after.lists.warnings == ()


def test_new_plan_is_compiler_entry_and_values_are_carried_over(tmp_path):
    def add(a: int) -> int:
        return a + 1

    def planner(request: object) -> str:
        return "S1: @ADD ($a) > $b\nS2: @RESPOND ($b)"

    with Runtime([add], compiler=planner, journal=tmp_path / "j.db") as runtime:
        ran = runtime.run_sync('S1: @ADD (1) > $a\nS2: @RE-PLAN ("more")')
        document = runtime.lctl_sync(ran.run_id)
    assert check([document]).is_ok
    assert [entry.agent for entry in document.entries] == [
        "caller",
        "S1:@ADD",
        "S2:RE-PLAN",
        "r1:compiler",
        "r1/S1:@ADD",
        "r1/S2:RESPOND",
    ]
    assert document.facts["F2"].derived_from == ("F1",)
    assert document.facts["F1"].source == "S1:@ADD"


def test_failure_is_post_mortem_with_known_facts_times_and_method(machine):
    run(
        machine,
        "S1: @BULK (size=3) > $n:int",
        'S2: @FAIL (text="at $n") > $x ON_FAIL TERMINATE ("ended")',
        code=1,
    )
    document = emitted(machine)
    assert isinstance(document, DebugDocument)
    assert (document.chain.status, document.chain.failed_at_step) == ("FAILED", 3)
    failed = document.entries[-1]
    assert (failed.error, failed.facts_at_failure) == ("RuntimeError: at xxx", ("F1",))
    assert all(entry.duration_ms is not None for entry in document.entries)
    assert "S1:@BULK wrote F1" in document.analysis.root_cause
    assert "backward slice over data and conditions" in document.analysis.root_cause


def test_instruction_is_goal_and_next_title(machine):
    steps = [
        {"index": "1", "title": "Add one", "tool": "add", "args": {"a": 1}, "depends_on": []},
        {"index": "2", "title": "Add more", "tool": "add", "args": {"a": 2}, "depends_on": ["1"]},
    ]
    machine.write("plan.json", json.dumps({"title": "Sums", "goal": "Add it all up", "steps": steps}))
    said = machine("run", "plan.json", "--tools", machine.tools, "--run-id", "r1")
    assert said.exit_code == 0, said.output
    assert emitted(machine, "--step", "1").instruction == "Goal: Add it all up\nNext: 2:@ADD, Add more"


@pytest.mark.parametrize(
    ("step", "basis", "confidence"),
    [
        ('@CALC ("1 + 1")', "deterministic, on this machine", 1.0),
        ("@ADD (a=1)", "read by a declared tool", 0.95),
        ('@NOTE (line="x")', "told by a tool whose effect is not known", 0.80),
    ],
)
def test_tool_results_have_confidence(machine, step, basis, confidence):
    run(machine, f"S1: {step} > $a", "S2: @RESPOND ($a)")
    fact = emitted(machine).facts["F1"]
    assert (fact.confidence, fact.note) == (confidence, f"$a; basis: {basis} ({confidence:g})")


def test_tool_confidence_is_configurable_and_caps_derived_facts(machine):
    run(machine, "S1: @ADD (a=1) > $a", 'S2: @CALC ("$a * 2") > $b', "S3: @RESPOND ($b)")
    document = emitted(machine, "--confidence", "add=0.5")
    assert [fact.confidence for fact in document.facts.values()] == [0.5, 0.5]
    assert (
        document.facts["F2"].note
        == "$b; basis: deterministic, on this machine (1); 0.5 by what it was made of"
    )
    for wrong in ("add", "add=2", "add=x", "=0.5"):
        assert machine("lctl", "emit", "r1", "--confidence", wrong).exit_code == 2


@pytest.mark.parametrize(
    ("step", "basis", "confidence"),
    [
        ("@LLM_SUMMARIZE ($in)", "a model said so; assumed", 0.70),
        ('@LLM_CLASSIFY ($in, categories="good, bad")', "a model said so, in a form that was checked", 0.90),
        ('@AGENT_SOLVE ($in, goal="go")', "an agent said so; assumed", 0.60),
    ],
)
def test_model_and_agent_answers_have_confidence(tmp_path, step, basis, confidence):
    async def model(request: object) -> str:
        return "good"

    def agent(task: AgentTask) -> str:
        return "done"

    with Runtime([], model=model, agent=agent, journal=tmp_path / "j.db") as runtime:
        ran = runtime.run_sync(f"S1: {step} > $a\nS2: @RESPOND ($a)", {"in": "text"})
        fact = runtime.lctl_sync(ran.run_id).facts["F2"]
    assert (fact.confidence, fact.note) == (confidence, f"$a; basis: {basis} ({confidence:g})")


def answered(machine, answer):
    run(
        machine,
        'S1: @NOTE (line="x") > $a',
        'S2: @ASK_HUMAN ("is it $a?") > $said',
        "S3: @RESPOND ($said)",
        code=4,
    )
    first = emitted(machine)
    assert machine("approve", "r1", "--answer", answer).exit_code == 0
    assert machine("resume", "r1").exit_code == 0
    return first, emitted(machine)


def test_persons_answer_keeps_its_confidence_after_uncertain_question(machine):
    _, document = answered(machine, "no")
    shown, said = document.facts["F1"], document.facts["F2"]
    assert (shown.confidence, said.confidence, said.derived_from) == (0.8, 1.0, ())
    assert said.note == "$said; basis: a person said so (1)"
    assert [entry.facts_modified for entry in document.entries] == [()] * len(document.entries)


def test_value_confirmed_by_person_keeps_its_confidence(machine):
    first, document = answered(machine, "x")
    shown, said = document.facts["F1"], document.facts["F2"]
    asked = next(entry for entry in document.entries if entry.agent == "S2:@ASK_HUMAN")
    assert (asked.facts_added, asked.facts_modified) == (("F2",), ("F1",))
    assert (shown.source, shown.step, shown.confidence) == (asked.agent, asked.step, 0.8)
    assert (said.confidence, first.facts["F1"].source) == (1.0, "S1:@NOTE")
    assert check([first, document]).is_ok


def test_default_of_unanswered_question_is_assumed(machine):
    ask = 'S1: @ASK_HUMAN ("which?", timeout="1s", default="red") > $colour'
    run(machine, ask, "S2: @RESPOND ($colour)", options=("--wait",))
    fact = emitted(machine).facts["F1"]
    assert fact.confidence == 0.7
    assert fact.note == "$colour; basis: nobody answered; the default of the question, assumed (0.7)"


def test_persons_answer_is_new_fact_with_confidence_1(machine):
    run(machine, "S1: @ADD (a=1) > $a", 'S2: @ASK_HUMAN ("is it $a?") > $yes', "S3: @RESPOND ($yes)", code=4)
    assert machine("approve", "r1", "--answer", "yes").exit_code == 0
    assert machine("resume", "r1").exit_code == 0
    document = emitted(machine)
    assert document.facts["F2"].note.startswith("$yes; basis: a person said so (1)")
