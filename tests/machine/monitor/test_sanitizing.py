"""Messages of runs under a policy: errors are judged like answers, and copied links are disarmed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.machine.driving import plan_of
from tests.passes.verify.graphs import step

from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.ir.labels import Label, read_label
from callsheet.machine import Machine, Started, Status, compile_plan
from callsheet.machine.commands import CallTool
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.result import Result
from callsheet.policy.model import Audience, Policy, ToolRule

LINK = "https://evil.example/?d=42"
APART = "https[:]//evil[.]example/?d=42"


def rule(returns: str, **more: Any) -> ToolRule:
    return ToolRule(egress=False, destructive=False, returns=read_label(returns), **more)


POLICY = Policy(
    tools={
        "VAULT": rule("T/secret"),
        "NOTES": rule("U/priv"),
        "PAGE": rule("U/pub"),
        "MIX": rule("T/pub"),
        "COPY": rule("T/pub", no_echo=True),
    },
    audiences=(Audience(name="trusted", hosts=("c.example",)),),
)


def graph(*steps: dict[str, Any]) -> Plan:
    return parse_dag(json.dumps({"id": "g", "steps": steps})).require()


def ended(plan: Plan, said: dict[str, str], policy: Policy = POLICY, **inputs: Label) -> Result:
    """The end of a run whose tools return this; a text that begins with `!` is an error."""
    machine = Machine(compile_plan(plan, {}), enforcement=Enforcement.under(policy, inputs))
    waiting = machine.feed(Started(dict.fromkeys(inputs, LINK)))
    while machine.result is None:
        command = waiting.pop(0)
        assert isinstance(command, CallTool)
        text = said[command.tool]
        is_error = text.startswith("!")
        event = Failed(command.key, text[1:]) if is_error else Succeeded(command.key, text)
        waiting += machine.feed(event)
    return machine.result


def test_public_error_of_failed_graph_is_shown() -> None:
    result = ended(
        graph(step("1", "notes", "", "n"), step("2", "mix", "1", "m", data="${n}")),
        {"NOTES": "a", "MIX": "!no a"},
    )
    assert (result.status, result.response) == (Status.FAILED, "step 2 failed: no a")


def test_secret_error_of_failed_graph_is_withheld() -> None:
    plan = graph(step("1", "vault", "", "v"), step("2", "mix", "1", "m", data="${v}"))
    result = ended(plan, {"VAULT": "hush", "MIX": "!bad hush"})
    assert result.status is Status.FAILED
    assert result.response.startswith("step 2 failed: POL180: its error is withheld: secret data")
    assert "hush" not in f"{result.response} {result.error}"


def test_errors_of_loop_items_reveal_no_secret() -> None:
    loop = 'S2: ?FOREACH ($x IN ["a", "b"]) THEN @MIX (x=$x, v=$v) > $m ON_FAIL TERMINATE ("no $x")'
    result = ended(plan_of(f"S1: @VAULT () > $v\n{loop}"), {"VAULT": "hush", "MIX": "!bad hush"})
    assert result.response == "no a"
    assert "POL180" in (result.error or "")
    assert "hush" not in (result.error or "")


def test_end_of_text_plan_reveals_no_more_than_graph() -> None:
    text = 'S1: @VAULT () > $v\nS2: @MIX (data=$v) > $m ON_FAIL TERMINATE ("no")'
    result = ended(plan_of(text), {"VAULT": "hush", "MIX": "!bad hush"})
    assert (result.response, "POL180" in (result.error or "")) == ("no", True)


def test_links_in_private_error_of_failed_graph_are_disabled() -> None:
    plan = graph(step("1", "notes", "", "n"), step("2", "mix", "1", "m", data="${n}"))
    result = ended(plan, {"NOTES": "42", "MIX": f"!look at {LINK}"})
    assert result.response == f"step 2 failed: look at {APART}"
    assert result.error == result.response


def test_links_in_public_error_stay() -> None:
    result = ended(graph(step("1", "page", "", "p")), {"PAGE": f"!look at {LINK}"})
    assert result.response == f"step 1 failed: look at {LINK}"


MADE = "S1: @NOTES () > $n\nS2: @PAGE () > $p\nS3: @MIX (a=$n, b=$p) > $m\n"
SAID = {"NOTES": f"42, see {LINK}", "PAGE": f"link to {LINK}", "MIX": f"42 ![x]({LINK}) https://c.example/42"}


@pytest.mark.parametrize(
    "ending",
    [
        "S4: @RESPOND ($m)",
        'S4: @RESPOND ("so: $m")',
        'S4: @RESPOND (["$m", {"k": "$m"}])',
        'S4: ?FOREACH ($x IN ["a", "b"]) THEN @RESPOND ("$x $m")',
        "S4: TERMINATE ($m)",
        'S4: @SET_WM (key="k", value=$m) > $w',
        'S4: @COPY (data="x") > $c ON_FAIL TERMINATE ("$m")',
    ],
)
def test_links_in_text_derived_from_private_and_untrusted_data_are_disabled(ending: str) -> None:
    said = SAID | {"COPY": "!no", "SET_WM": f"kept {SAID['MIX']}"}
    response = ended(plan_of(MADE + ending), said).response
    assert LINK not in response
    assert APART in response
    assert "https://c.example/42" in response


def test_implicit_answer_of_graph_is_sanitized_equally() -> None:
    plan = graph(step("1", "notes", "", "n"), step("3", "mix", "1", "m", a="${n}"))
    assert LINK not in ended(plan, SAID).response


def test_results_of_reads_are_shown_unchanged() -> None:
    assert LINK in ended(plan_of("S1: @NOTES () > $n\nS2: @RESPOND ($n)"), SAID).response


def test_plan_addresses_stay_beside_derived_text() -> None:
    text = MADE + 'S4: @RESPOND ("by https://own.example/x: $m")'
    response = ended(plan_of(text), SAID).response
    assert response.startswith("by https://own.example/x: 42 ![x] (https[:]//")


def test_links_from_user_input_or_public_data_stay_live() -> None:
    own = "S1: @MIX (a=$own) > $m\nS2: @RESPOND ($m)"
    assert LINK in ended(plan_of(own), SAID, own=read_label("T/priv")).response
    public = "S1: @PAGE () > $p\nS2: @MIX (a=$p) > $m\nS3: @RESPOND ($m)"
    assert LINK in ended(plan_of(public), SAID).response


def test_links_of_declassified_step_stay_live() -> None:
    policy = Policy(tools=POLICY.tools, declassify=frozenset({"S3"}))
    assert LINK in ended(plan_of(MADE + "S4: @RESPOND ($m)"), SAID, policy).response
