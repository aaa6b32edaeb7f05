"""The receiving protocol, and the documents that it makes, which follow every rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.lctl import (
    Ack,
    Chain,
    Fact,
    Handoff,
    LctlError,
    Level,
    Work,
    begin,
    check,
    free_ids,
    merge,
    parse,
    receive,
    rename_facts,
    write,
)
from lctl_blocks import ack, changed, failed, hop, minimal, text


def work(agent: str, to: str, **more: object) -> Work:
    return replace(Work(agent=agent, to=to, instruction="Go on", action="Did it", confidence=0.9), **more)


def first(**more: object) -> Handoff:
    facts = [Fact("F1", "Invoice 881 totals 120.50 EUR", 0.96), Fact("F2", "It is of March", 0.9)]
    return begin("inv-7", work("reader", "checker", facts=facts, critical=["F1"], **more))


def rules_of(error: pytest.ExceptionInfo[LctlError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


def test_invalid_fact_raises_in_caller() -> None:
    with pytest.raises(TypeError, match=r"each of Work\(facts=…\) must be a Fact\(…\), not str"):
        work("reader", "checker", facts={"F1": "x"})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (Fact("F1", "x"), r"Work\(facts=…\) must be a list of Fact\(…\), not Fact"),
        ([Fact(1, "x")], "the id of a Fact must be a text such as F1, not int"),  # type: ignore[arg-type]
        ([Fact("F1", "x", "high")], "the confidence of Fact F1 must be a number, not str"),  # type: ignore[arg-type]
        ([Fact("F1", "x", derived_from="F2")], "derived_from of Fact F1 must be a list of ids, not str"),  # type: ignore[arg-type]
    ],
)
def test_field_of_wrong_type_is_named(facts: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        work("reader", "checker", facts=facts)


@pytest.mark.parametrize("block", [None, 5, Path("block.yaml")])
def test_block_of_wrong_type_is_named(block: Any) -> None:
    with pytest.raises(TypeError, match="document 1 must be a text, its bytes or a document, not"):
        receive(block)
    with pytest.raises(TypeError, match="blocks must be a list of documents, not str"):
        check("lctl: '3.0'")
    with pytest.raises(TypeError, match="each branch must be a received or emitted hand-off, not"):
        merge([block, first()], work("ops", "dba"))


def test_receiving_follows_six_steps() -> None:
    got = receive(f"Here you are:\n```yaml\n{write(first())}```\n", agent="checker")
    assert [entry.agent for entry in got.trace] == ["reader"]
    assert (got.concerns, got.human_review, got.blocked) == ((), (), ())
    made = got.ack()
    assert made == Ack("inv-7", 1, "checker", "received", ("F1", "F2"), ())
    assert got.instruction == "Go on"
    onward = got.hand_on(
        work("checker", "payer", facts=[Fact("F3", "Order 55 fits", 0.95, derived_from=("F1",))])
    )
    assert (onward.chain.step, onward.chain.source, onward.chain.target) == (2, "checker", "payer")
    assert onward.critical == ("F1", "F3")
    assert onward.lists is not None
    assert onward.lists.context == ("F2",)
    assert check([first(), made, onward]).is_ok


def test_unreceivable_document_is_refused_with_position() -> None:
    with pytest.raises(LctlError) as caught:
        receive(text(changed(hop(1), "chain.step", 0)))
    assert rules_of(caught) == ["C04"]
    for block in (text(failed()), text(ack())):
        with pytest.raises(LctlError) as caught:
            receive(block)
        assert rules_of(caught) == ["P09"]
    with pytest.raises(LctlError) as caught:
        receive(text(hop(1)), agent="payer")
    assert rules_of(caught) == ["A03"]


def test_fact_below_forty_percent_is_received_and_blocked() -> None:
    got = receive(text(changed(hop(1), "facts.F1.confidence", 0.3)))
    assert got.blocked == got.concerns == ("F1",)
    onward = got.hand_on(work("checker", "payer"))
    assert "F1" in onward.facts
    assert onward.handed_on == ("F2",)
    with pytest.raises(LctlError):
        receive(text(changed(hop(1), "facts.F1.confidence", 0.3)), accept=())


def test_raised_value_is_handed_on_at_computed_confidence() -> None:
    low = changed(hop(1), "facts.F1.confidence", 0.65)
    second = hop(2)
    second["trace"][1]["facts_modified"] = ["F1"]
    second["facts"]["F1"] |= {"source": "checker", "step": 2}
    got = receive(text(second), after=[text(low)])
    assert got.concerns == ("F1",)
    assert got.ack().confidence_concerns == ("F1",)
    assert got.hand_on(work("payer", "auditor")).facts["F1"].confidence == 0.65


def dropped_at_half(*, minimal: bool = False) -> list[Handoff]:
    """A chain in which F3, with confidence 0.5, has been dropped."""
    facts = [Fact("F1", "It is", 0.9), Fact("F3", "Maybe", 0.5)]
    begun = begin("c", work("reader", "checker", facts=facts, critical=["F1"]), minimal=minimal)
    onward = work("checker", "payer", dropped=["F3"])
    if not minimal:
        return [begun, receive(begun).hand_on(onward)]
    return [
        begun,
        replace(
            begin("c", onward, minimal=True),
            facts={"F1": begun.facts["F1"]},
            chain=Chain("c", 2, "checker", "payer"),
        ),
    ]


def test_dropped_fact_is_handed_on_again_at_its_confidence() -> None:
    chain = dropped_at_half(minimal=True)
    got = receive(chain[-1], after=chain[:-1], accept=["X07"])  # without lists all facts are critical
    again = [Fact("F3", "Surely", 0.96), Fact("F5", "New", 0.96)]
    onward = got.hand_on(work("payer", "auditor", facts=again))
    assert {fact.id: fact.confidence for fact in onward.facts.values()} == {"F1": 0.9, "F3": 0.5, "F5": 0.96}
    assert check([*chain, onward]).effective == {"F1": 0.9, "F3": 0.5, "F5": 0.96}
    assert merge([got], work("payer", "auditor", facts=again)).facts["F3"].confidence == 0.5


def test_derivation_from_dropped_fact_is_capped_in_any_order() -> None:
    chain = dropped_at_half()
    derived = [Fact("F5", "So", 0.96, derived_from=("F6",)), Fact("F6", "Then", 0.9, derived_from=("F3",))]
    onward = receive(chain[-1], after=chain[:-1]).hand_on(work("payer", "auditor", facts=derived))
    assert (onward.facts["F5"].confidence, onward.facts["F6"].confidence) == (0.5, 0.5)


def test_minimal_form_is_answered_in_minimal_form() -> None:
    onward = receive(text(minimal())).hand_on(work("checker", "payer", facts=[Fact("F2", "It fits", 0.96)]))
    assert onward.is_minimal
    assert list(onward.facts) == ["F1", "F2"]
    report = check([text(minimal()), onward])
    assert report.is_ok
    assert "from: checker, to: payer" in write(onward)


def test_work_breaking_rule_is_refused() -> None:
    got = receive(write(first()))
    for wrong, rule in (
        ({"facts": [Fact("F1", "Something else", 0.9)]}, "T08"),
        ({"modified": [Fact("F9", "Something", 0.9)]}, "T09"),
        ({"facts": [Fact("F3", " ", 0.9)]}, "F01"),
        ({"facts": [Fact("F3", "x")]}, "F02"),
        ({"facts": [Fact("F3", "x", 0.9, derived_from=("F9",))]}, "V09"),
        ({"dropped": ["F1"]}, "X07"),
        ({"critical": ["F9"]}, "H01"),
        ({"instruction": ""}, "S08"),
    ):
        with pytest.raises(LctlError) as caught:
            got.hand_on(work("checker", "payer", **wrong))
        assert rule in rules_of(caught), rule


def test_fact_derived_from_unknown_one_names_it_and_nearest() -> None:
    derived = Fact("F3", "x", 0.9, derived_from=("F2", "f1"))
    with pytest.raises(LctlError, match=r"F3 derives from f1, and the chain has no such fact; .*F1"):
        receive(write(first())).hand_on(work("checker", "payer", facts=[derived]))
    with pytest.raises(LctlError, match="F3 derives from F2"):
        begin("c", work("reader", "checker", facts=[derived]))


def test_fact_may_derive_from_dropped_or_referenced_fact() -> None:
    named = replace(first().facts["F2"], derived_from=("X7",))
    got = receive(replace(first(), facts={**first().facts, "F2": named}))
    onward = got.hand_on(work("checker", "payer", modified=[named], dropped=["F2"]))
    assert onward.entries[-1].facts_modified == ("F2",)
    derived = Fact("F3", "x", 0.5, derived_from=("F2",))
    assert "F3" in receive(onward).hand_on(work("payer", "auditor", facts=[derived])).facts


def test_branches_join_at_lowest_value() -> None:
    start = first()
    branches = []
    for agent, value in (("web", 0.9), ("api", 0.7)):
        got = receive(write(replace(start, chain=replace(start.chain, target=agent))))
        (own,) = free_ids(start) if agent == "web" else ("F4",)
        done = work(
            agent, "lead", parallel=True, facts=[Fact(own, f"{agent} answers", 0.95)],
            modified=[Fact("F1", "Invoice 881 totals 120.50 EUR", value)],
        )  # fmt: skip
        branches.append(receive(write(got.hand_on(done)), after=[start]))
    joined = [merge(order, replace(work("lead", "ops"), action=None)) for order in (branches, branches[::-1])]
    for made in joined:
        assert made.chain.parallel_merge
        assert made.facts["F1"].confidence == 0.7
        assert made.lists is not None
        assert "0.7, 0.9" in made.lists.warnings[0]
    assert {f.id: (f.text, f.confidence, f.source) for f in joined[0].facts.values()} == {
        f.id: (f.text, f.confidence, f.source) for f in joined[1].facts.values()
    }
    documents = [start, *(branch.document for branch in branches), joined[0]]
    fork = {1: (0,), 2: (0,), 3: (1, 2)}
    got = receive(documents[-1], after=documents[:-1], parents=fork)
    assert got.hand_on(work("ops", "end")).facts["F1"].confidence == 0.7
    report = check(documents, fork)
    assert {f.rule for f in report.of(3) if f.level is not Level.INFO} == {"M02"}


def test_branches_with_conflicting_id_must_be_renamed() -> None:
    one, other = (
        begin("c", work(agent, "lead", parallel=True, facts=[Fact("F1", f"{agent} answers", 0.9)]))
        for agent in ("web", "api")
    )
    with pytest.raises(LctlError) as caught:
        merge([one, other], work("lead", "ops"))
    assert rules_of(caught) == ["M01"]
    made = merge([one, rename_facts(other, {"F1": "F2"})], work("lead", "ops"))
    assert made.critical == ("F1", "F2")
    assert [entry.facts_added for entry in made.entries] == [("F1",), ("F2",), ()]


CONFIDENCES = st.floats(0, 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(CONFIDENCES, max_size=3), min_size=1, max_size=5), st.booleans(), st.data())
def test_generated_chain_breaks_no_error_rule(
    hops: list[list[float]], is_minimal: bool, data: st.DataObject
) -> None:
    """For any additions of agents in any confidence: every document passes the check, in its chain."""
    made: list[Handoff] = []
    for number, values in enumerate(hops):
        known = list(made[-1].facts) if made else []
        ids = free_ids(made[-1], len(values)) if made else tuple(f"F{n}" for n in range(1, len(values) + 1))
        parents = st.lists(st.sampled_from(known), max_size=2, unique=True) if known else st.just([])
        facts = [
            Fact(name, "t", value, derived_from=tuple(data.draw(parents)))
            for name, value in zip(ids, values, strict=True)
        ]
        done = work(f"a{number}", f"a{number + 1}", facts=facts)
        if not made:
            made.append(begin("c", done, minimal=is_minimal))
        else:
            made.append(receive(write(made[-1]), after=made[:-1], accept=["V05"]).hand_on(done))
    report = check(made)
    assert [(f.rule, f.message) for f in report.findings if f.is_error and f.rule != "V05"] == []
    assert not report.lost
    assert all(parse(write(document)) == document for document in made)
