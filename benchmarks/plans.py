"""The plans that are measured, and their tools."""

from __future__ import annotations

from typing import Any

from callsheet.ir import Call, Effect, Foreach, ListExpr, Literal, Output, Plan, Ref, Step
from callsheet.machine import ToolFacts
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports, Route

FACTS = {
    "INC": ToolFacts(Effect.UNSAFE, ("x",)),
    "LOOK": ToolFacts(Effect.READ, ("x",)),
    "SUM": ToolFacts(Effect.PURE, ("xs",)),
}


async def inc(args: dict[str, Any], context: CallContext) -> int:
    return args["x"] + 1


async def total(args: dict[str, Any], context: CallContext) -> int:
    return sum(args["xs"])


ROUTES = {"INC": Route(inc), "LOOK": Route(inc), "SUM": Route(total)}
PORTS = Ports(ROUTES.get)


def chain(n: int) -> Plan:
    """`n` steps, each of which takes the result of the one before."""

    def step(i: int) -> Step:
        value = Ref(f"v{i - 1}") if i > 1 else Literal(0)
        return Step(f"S{i}", Call("INC", (), (("x", value),)), output=Output(f"v{i}"))

    return Plan(tuple(step(i) for i in range(1, n + 1)))


def fan_out(n: int) -> Plan:
    """`n` concurrent steps, and one that takes all their results."""
    members = [
        Step(f"S{i}", Call("INC", (), (("x", Literal(i)),)), output=Output(f"v{i}"), group=0)
        for i in range(n)
    ]
    values = ListExpr(tuple(Ref(f"v{i}") for i in range(n)))
    return Plan((*members, Step("JOIN", Call("SUM", (), (("xs", values),)), output=Output("sum"))))


def each(n: int) -> Plan:
    """One tool over a list of `n` items."""
    items = ListExpr(tuple(Literal(i) for i in range(n)))
    step = Step(
        "S1", Call("LOOK", (), (("x", Ref("item")),)), foreach=Foreach("item", items), output=Output("all")
    )
    return Plan((step,))


def text(n: int) -> str:
    """A plan of `n` steps as people write them: calls, conditions, retries, a group, an answer."""
    forms = (
        'S{i}: @WEB_SEARCH (query="topic {i} of $v{p}") > $v{i}',
        'S{i}: ?IF ($v{p} contains "err" AND NOT (IS_EMPTY($v1))) THEN @WEB_SEARCH (query="{i}") > $v{i}',
        'S{i}: @LLM_EXTRACT ($v{p}, target="field {i}") > $v{i}',
        'S{i}: @EXEC_CODE (code="print({i})", language="python") > $v{i}:int ON_FAIL @RETRY(2)',
        'S{i}: @STORE_FACT (content="fact {i}: $v{p}", importance=0.8, tags=["a", {{"b": {i}}}]) > $v{i}',
    )
    lines = ["PLAN_START", 'S1: @WEB_SEARCH (query="start") > $v1']
    lines += [forms[i % len(forms)].format(i=i, p=i - 1) for i in range(2, n)]
    return "\n".join([*lines, f'S{n}: @RESPOND ("Done:", $v{n - 1})', "PLAN_END", ""])
