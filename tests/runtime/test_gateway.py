"""The gateway: whatever a tool does, the run receives a value or an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.runtime.tools import launch, plan_of, route_to, run

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import (
    CallModel,
    CallTool,
    Compile,
    Cut,
    Fact,
    Failed,
    PlanCompiled,
    RunAgent,
    Succeeded,
)
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools import tool, tool_of
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.runs import run_unrecorded

CALL = CallTool("S1.0.1", "S1", "A", {"x": 1})


def gateway(tool: Any) -> Gateway:
    return Gateway(Ports(route_to({"A": tool})), "run")


def raising(error: BaseException) -> Any:
    async def fail(args: dict[str, Any], context: CallContext) -> JSON:
        raise error

    return fail


async def test_value_returns_under_key_of_call() -> None:
    assert await gateway(lambda args: args).carry_out(CALL) == Succeeded("S1.0.1", {"x": 1})


class Odd(BaseException):
    """An exception that is not an Exception."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolFailed("503"), "503"),
        (ToolFailed(""), "the tool failed without saying why"),
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (RuntimeError(), "RuntimeError"),
        (TimeoutError(), "TimeoutError"),
        (TimeoutError("slow"), "TimeoutError: slow"),
        (StopAsyncIteration("s"), "StopAsyncIteration: s"),
        (RecursionError("deep"), "RecursionError: deep"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
    ],
)
async def test_exception_is_error_with_kind_and_text(error: Exception, text: str) -> None:
    outcome = await gateway(raising(error)).carry_out(CALL)
    assert isinstance(outcome, Failed)
    assert outcome == Failed("S1.0.1", text, outcome.remarks)
    kept = [remark.text.endswith(text) for remark in outcome.remarks if isinstance(remark, Fact)]
    is_group = isinstance(error, ExceptionGroup)
    assert kept == ([] if isinstance(error, ToolFailed) else [not is_group])


async def test_diagnostic_is_error_with_code() -> None:
    outcome = await gateway(raising(CallsheetError.single("TOL001", "no such"))).carry_out(CALL)
    assert isinstance(outcome, Failed)
    assert "TOL001" in outcome.error


async def test_cancellation_raised_by_tool_fails_call_only() -> None:
    outcome = await gateway(raising(asyncio.CancelledError())).carry_out(CALL)
    assert isinstance(outcome, Failed)
    text = '@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b\n}\nS3: @RESPOND ("on")'
    result = await run(text, {"A": raising(asyncio.CancelledError()), "B": 2})
    assert (result.response, result.variables["b"]) == ("on", 2)


@pytest.mark.parametrize("text", ["S1: @A () > $a", "@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b\n}"])
@pytest.mark.parametrize(
    "error",
    [Odd("odd"), BaseExceptionGroup("Odd ones", [Odd("odd")]), SystemExit("Odd")],
    ids=["own", "group", "exit"],
)
async def test_no_exception_hangs_or_ends_run(text: str, error: BaseException) -> None:
    async with asyncio.timeout(60):
        result = await run(text + '\nS3: @RESPOND ("on")', {"A": raising(error), "B": 2})
    assert result.response == "on"
    assert "Odd" in str(result.variables["a"])


async def test_uncallable_tool_is_error() -> None:
    def route(name: str) -> Route | None:
        raise ValueError("no registry")

    outcome = await Gateway(Ports(route), "run").carry_out(CALL)
    assert isinstance(outcome, Failed)
    assert outcome.error == "ValueError: no registry"


def limited(function: Any, seconds: float) -> Route:
    """The route to a function as a Python tool with a timeout."""
    return Route(tool_of(tool(timeout=seconds)(function)).handler)


async def test_call_over_tool_timeout_fails_and_is_ended() -> None:
    ended = False

    async def slow(x: int) -> JSON:
        nonlocal ended
        try:
            await asyncio.sleep(30)
        finally:
            ended = True

    outcome = await gateway(limited(slow, 0.01)).carry_out(CALL)
    assert outcome == Failed("S1.0.1", "no answer within 0.01 s", unsettled=True, kind="TIMEOUT")
    assert ended


async def test_call_within_timeout_succeeds() -> None:
    async def quick(x: int) -> JSON:
        return x

    assert await gateway(limited(quick, 5)).carry_out(CALL) == Succeeded("S1.0.1", 1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (CALL._replace(tool="NOWHERE"), "no tool is called @NOWHERE"),
        (CallModel("S1.0.1", "S1", "LLM_EXTRACT", [], {}), "@LLM_EXTRACT needs a language model"),
        (RunAgent("S1.0.1", "S1", "AGENT_SOLVE", [], {}), "@AGENT_SOLVE needs an agent"),
        (Compile("S1.0.1", "S1", "why", {}), "RE-PLAN needs a language model"),
    ],
)
async def test_missing_port_fails_its_commands(command: Any, words: str) -> None:
    outcome = await gateway(1).carry_out(command)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith(words)


async def test_models_agents_and_compiler_are_separate_ports() -> None:
    plan = plan_of('S1: @RESPOND ("x")')

    async def model(command: CallModel, _context: CallContext) -> JSON:
        return ["model", *command.inputs]

    async def agent(command: RunAgent, _context: CallContext) -> JSON:
        return "agent"

    async def compiler(command: Compile, _context: CallContext) -> tuple[Any, dict[str, Any]]:
        return plan, {}

    way = Gateway(Ports(lambda name: None, model, agent, compiler), "run")
    assert await way.carry_out(CallModel("k", "S1", "LLM_EXTRACT", [1], {})) == Succeeded("k", ["model", 1])
    assert await way.carry_out(RunAgent("k", "S1", "AGENT_SOLVE", [], {})) == Succeeded("k", "agent")
    assert await way.carry_out(Compile("k", "S1", "why", {})) == PlanCompiled("k", plan, {})


async def test_call_context_has_run_key_and_stable_idempotency_key() -> None:
    seen: list[CallContext] = []

    async def look(args: dict[str, Any], context: CallContext) -> JSON:
        seen.append(context)
        return None

    for run_id in ("run", "run", "other"):
        await Gateway(Ports(route_to({"A": look})), run_id).carry_out(CALL)
    first, again, other = seen
    assert (first.run_id, first.key) == ("run", "S1.0.1")
    assert first.idempotency_key == again.idempotency_key != other.idempotency_key


def test_planned_retry_has_new_idempotency_key() -> None:
    assert CallContext("run", "S1.0.1").idempotency_key != CallContext("run", "S1.0.2").idempotency_key


@pytest.mark.parametrize("unfit", [object(), b"bytes", 10**5000], ids=lambda v: type(v).__name__)
async def test_non_json_result_fails_call(unfit: object) -> None:
    text = 'S1: @A () > $a ON_FAIL GOTO S3\nS2: @RESPOND ("went on")\nS3: @RESPOND ("failed $a")'
    result = await run(text, {"A": lambda args: unfit})
    assert result.response.startswith("failed ")


async def test_tool_result_is_converted_to_json_at_once() -> None:
    """It equals the value that the run has when it is folded from its journal."""
    result = await run(
        "S1: @A () > $a\nS2: @RESPOND ($a.rows.1, $a.7)", {"A": lambda args: {"rows": (1, 2), 7: "k"}}
    )
    assert result.response == "2 k"
    assert result.variables["a"] == {"rows": [1, 2], "7": "k"}


async def test_call_ignoring_cancellation_is_abandoned() -> None:
    """Its step fails at the timeout; later results of the call are ignored."""
    ended = asyncio.Event()

    async def deaf() -> JSON:
        for _ in range(120):
            try:
                async with asyncio.timeout(0.02):
                    await ended.wait()
                    break
            except (asyncio.CancelledError, TimeoutError):
                continue
        answered.append("too late")
        return "too late"

    answered: list[str] = []
    try:
        result = await run("S1: @A () > $a", {"A": limited(deaf, 0.01)})
        assert answered == [], "the run did not wait for it"
        assert result.variables["a"] == "no answer within 0.01 s"
    finally:
        ended.set()
        await asyncio.sleep(0.05)


async def test_result_modified_later_by_tool_changes_nothing() -> None:
    kept: list[JSON] = [1]

    def give(args: dict[str, Any]) -> JSON:
        return kept

    def spoil(args: dict[str, Any]) -> JSON:
        kept.append("spoiled")
        return None

    result = await run("S1: @GIVE () > $a\nS2: @SPOIL ()\nS3: @RESPOND ($a)", {"GIVE": give, "SPOIL": spoil})
    assert result.response == "[1]"


async def test_models_agents_and_compiler_get_copies() -> None:
    async def model(command: CallModel, _context: CallContext) -> JSON:
        command.inputs[0].append("spoiled")  # type: ignore[union-attr]
        command.args["target"].append("spoiled")
        return None

    async def agent(command: RunAgent, _context: CallContext) -> JSON:
        command.inputs[0].append("spoiled")  # type: ignore[union-attr]
        return None

    async def compiler(command: Compile, _context: CallContext) -> tuple[Any, dict[str, Any]]:
        command.variables["x"].append("spoiled")  # type: ignore[union-attr]
        return plan_of("S1: @RESPOND ($x)"), {}

    text = "S1: @LLM_EXTRACT ($x, target=$x)\nS2: @AGENT_SOLVE ($x)\nS3: RE-PLAN ($x)"
    ports = Ports(lambda name: None, model, agent, compiler)
    assert (await run_unrecorded(plan_of(text), ports, launch(x=[1]))).response == "[1]"


# ---------------------------------------------------------------- remarks


_CUT = Cut("rows", 2, 5, "rows")


async def test_tool_remarks_accompany_value() -> None:
    async def tool(args: dict[str, Any], context: CallContext) -> JSON:
        context.remark(_CUT)
        context.remark(Fact("a", "b"))
        return 1

    assert await gateway(tool).carry_out(CALL) == Succeeded("S1.0.1", 1, (_CUT, Fact("a", "b")))


@pytest.mark.parametrize(
    "error", [ToolFailed("no"), ToolFailed("late", in_doubt=True), ValueError("bad"), KeyError("k")]
)
async def test_tool_remarks_accompany_failure(error: Exception) -> None:
    async def tool(args: dict[str, Any], context: CallContext) -> JSON:
        context.remark(_CUT)
        raise error

    outcome = await gateway(tool).carry_out(CALL)
    assert isinstance(outcome, Failed)
    assert outcome.remarks[0] == _CUT
    assert len(outcome.remarks) == (1 if isinstance(error, ToolFailed) else 2)


async def test_remarks_are_per_call() -> None:
    async def tool(args: dict[str, Any], context: CallContext) -> JSON:
        if args["x"] == 1:
            context.remark(_CUT)
        return None

    way = gateway(tool)
    await way.carry_out(CALL)
    assert await way.carry_out(CallTool("S2.0.1", "S2", "A", {"x": 2})) == Succeeded("S2.0.1", None)


async def test_models_agents_and_compiler_may_remark() -> None:
    async def model(command: CallModel | RunAgent, context: CallContext) -> JSON:
        context.remark(_CUT)
        return "a"

    async def compiler(command: Compile, context: CallContext) -> tuple[Any, dict[str, Any]]:
        context.remark(_CUT)
        return plan_of("S1: TERMINATE ()"), {}

    way = Gateway(Ports(lambda name: None, model, model, compiler), "run")
    commands = (
        CallModel("k", "S1", "LLM_EXTRACT", [], {}),
        RunAgent("k", "S1", "AGENT_SOLVE", [], {}),
        Compile("k", "S1", "why", {}),
    )
    for command in commands:
        outcome = await way.carry_out(command)
        assert isinstance(outcome, Succeeded | PlanCompiled)
        assert outcome.remarks == (_CUT,)


async def test_content_dropped_by_cleaning_is_remarked() -> None:
    ports = Ports(route_to({"EXEC_CODE": lambda args: {"stdout": "7\n", "stderr": "slow!", "exit_code": 0}}))
    outcome = await Gateway(ports, "run").carry_out(CallTool("k", "S1", "EXEC_CODE", {}))
    assert outcome == Succeeded("k", "7", (Cut("stderr", 0, 5, "characters"),))


ROWS = [{"title": "News", "url": "https://n.test/1"}]


@pytest.mark.parametrize(
    ("cast", "value"),
    [("", "1. News\n   https://n.test/1"), (":list", ROWS), (":json", ROWS)],
)
async def test_search_rows_are_text_unless_cast(cast: str, value: JSON) -> None:
    plan = (
        f'S1: @WEB_SEARCH (query="news") > $found{cast}\nS2: ?FOREACH ($row IN $found) THEN @OPEN ($row.url)'
    )
    opened: list[JSON] = []

    def open_it(args: dict[str, Any]) -> JSON:
        opened.append(args["arg0"])
        return None

    result = await run(plan, {"WEB_SEARCH": {"results": ROWS}, "OPEN": open_it})
    assert result.variables["found"] == value
    assert opened == ([None] if not cast else ["https://n.test/1"])
