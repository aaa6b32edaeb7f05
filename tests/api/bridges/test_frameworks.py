"""Bridges to other libraries, each with the library itself and a scripted model."""

import json
from typing import Any

import pytest

from callsheet import (
    CallsheetError,
    Plan,
    Runtime,
    Tool,
    from_langchain,
    from_openai_agents,
    from_pydantic_ai,
    tool,
)


@tool(effect="read")
def price(item: str) -> int:
    """The price of an item."""
    if item == "nothing":
        raise ValueError("there is no such item")
    return len(item)


PLAN = Plan.parse(
    "# ltp: 2\n# goal: The price of several of an item\n"
    "INPUT $item: str   # what it is\nINPUT $count: int = 2\n"
    "S1: @PRICE ($item) > $one\nS2: @RESPOND ($one * $count)\n"
)
FAILS = 'S1: @PRICE (item="nothing") > $p ON_FAIL TERMINATE ("no price: $p")'


# ------------------------------------------------------------------ any function


async def test_a_tool_is_made_of_a_name_a_schema_and_a_function() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema["additionalProperties"] = False

    async def treble(n: int) -> int:
        return 3 * n

    tools = [Tool.of("double", lambda n: 2 * n, schema, effect="pure"), Tool.of("tre-ble", treble, schema)]
    result = await Runtime(tools).run("S1: @DOUBLE (4) > $a\nS2: @TRE_BLE (n=$a) > $b\nS3: @RESPOND ($b)")
    assert result.response == "24"
    findings = Plan.parse("S1: @DOUBLE (m=1)").check(tools=tools)
    assert any("no argument m" in one.message for one in findings.errors)
    with pytest.raises(ValueError, match="no letter"):
        Tool.of("--", treble, schema)
    with pytest.raises(ValueError, match="whatever"):
        Tool.of("x", treble, schema, effect="whatever")


# ------------------------------------------------------------------ LangChain


async def test_a_tool_of_langchain_is_called_by_a_plan() -> None:
    core = pytest.importorskip("langchain_core.tools")

    @core.tool
    def search(query: str, limit: int = 3) -> list[str]:
        """Searches."""
        if query == "bad":
            raise core.ToolException("not that")
        return [query] * limit

    search.handle_tool_error = True
    made = from_langchain(search, effect="read")
    assert (made.spec.name, made.spec.parameter_names) == ("SEARCH", ("query", "limit"))
    assert made.spec.parameters["required"] == ["query"]
    assert made.spec.effect.only_reads
    findings = Plan.parse('S1: @SEARCH ("tea", limt=2) > $a').check(tools=[made])
    assert any("no argument limt" in one.message for one in findings.errors)  # LangChain would ignore it
    result = await Runtime([made]).run('S1: @SEARCH ("tea", limit=2) > $a\nS2: @RESPOND ($a)')
    assert result.response == '["tea","tea"]'
    failed = await Runtime([made]).run('S1: @SEARCH ("bad") > $a ON_FAIL TERMINATE ("$a")')
    assert "not that" in failed.response
    with pytest.raises(TypeError, match="a tool of LangChain"):
        from_langchain(len)  # pyright: ignore[reportArgumentType]


async def test_a_plan_is_a_tool_of_langchain() -> None:
    core = pytest.importorskip("langchain_core.tools")
    made = PLAN.as_tool("langchain", Runtime([price]), name="quote")
    assert isinstance(made, core.BaseTool)
    assert (made.name, made.description) == ("quote", "The price of several of an item")
    assert made.tool_call_schema["required"] == ["item"]
    call = {"type": "tool_call", "id": "1", "name": "quote", "args": {"item": "lamp", "count": 3}}
    message = await made.ainvoke(call)
    assert (message.content, message.status) == ("12", "success")
    failing = Plan.parse(FAILS).as_tool("langchain", Runtime([price]), name="failing")
    message = await failing.ainvoke(call | {"args": {}})
    assert message.status == "error"
    assert "no price" in message.content


def test_a_plan_is_called_by_langchain_without_an_event_loop() -> None:
    pytest.importorskip("langchain_core.tools")
    assert PLAN.as_tool("langchain", Runtime([price])).invoke({"item": "lamp"}) == 8


# ------------------------------------------------------------------ OpenAI Agents SDK


async def test_a_tool_of_openai_agents_is_called_by_a_plan() -> None:
    agents = pytest.importorskip("agents")

    @agents.function_tool
    def look(context: agents.RunContextWrapper[Any], city: str) -> dict[str, str]:
        """Looks out of the window."""
        if city == "nowhere":
            raise ValueError("no such city")
        return {"city": city, "who": context.context}

    made = from_openai_agents(look, effect="read", context="Ada")
    assert (made.spec.name, made.spec.parameter_names) == ("LOOK", ("city",))
    result = await Runtime([made]).run('S1: @LOOK ("Rome") > $a\nS2: @RESPOND ($a.who, $a.city)')
    assert result.response == "Ada Rome"
    failed = await Runtime([made]).run('S1: @LOOK ("nowhere") > $a ON_FAIL TERMINATE ("failed")')
    assert failed.response == "failed"
    with pytest.raises(TypeError, match="a function tool"):
        from_openai_agents(len)  # pyright: ignore[reportArgumentType]


async def test_a_plan_is_a_tool_of_an_openai_agent() -> None:
    agents = pytest.importorskip("agents")
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):
        """Calls the tool once, and then says what it gave."""

        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("input", args[1] if len(args) > 1 else [])
            outputs = [one["output"] for one in given if one.get("type") == "function_call_output"] if (
                isinstance(given, list)
            ) else []  # fmt: skip
            if not outputs:
                call = ResponseFunctionToolCall(
                    arguments=json.dumps({"item": "lamp"}), call_id="1", name="quote", type="function_call"
                )
                return agents.ModelResponse(output=[call], usage=agents.Usage(), response_id=None)
            text = ResponseOutputText(annotations=[], text=f"It costs {outputs[0]}.", type="output_text")
            message = ResponseOutputMessage(
                id="2", content=[text], role="assistant", status="completed", type="message"
            )
            return agents.ModelResponse(output=[message], usage=agents.Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    quote = PLAN.as_tool("openai-agents", Runtime([price]), name="quote")
    assert quote.params_json_schema["required"] == ["item"]
    agent = agents.Agent(name="shop", model=Scripted(), tools=[quote])
    config = agents.RunConfig(tracing_disabled=True)
    done = await agents.Runner.run(agent, "What does a lamp cost?", run_config=config)
    assert done.final_output == "It costs 8."


# ------------------------------------------------------------------ pydantic-ai


async def test_a_tool_of_pydantic_ai_is_called_by_a_plan() -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")

    def roll(ctx: pydantic_ai.RunContext[int], sides: int) -> int:
        """Rolls dice."""
        if sides < 2:
            raise pydantic_ai.ModelRetry("a die has more sides")
        return ctx.deps * sides

    made = from_pydantic_ai(pydantic_ai.Tool(roll), effect="read", deps=7)
    assert (made.spec.name, made.spec.parameter_names) == ("ROLL", ("sides",))
    result = await Runtime([made]).run("S1: @ROLL (6) > $a\nS2: @RESPOND ($a)")
    assert result.response == "42"
    for sides, said in ((1, "more sides"), ("x", "the arguments do not fit: sides")):
        failed = await Runtime([made]).run('S1: @ROLL ($n) > $a ON_FAIL TERMINATE ("$a")', {"n": sides})
        assert said in failed.response


async def test_a_plan_is_a_tool_of_a_pydantic_ai_agent() -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def scripted(messages: list[Any], info: Any) -> ModelResponse:
        (offered,) = info.function_tools
        assert offered.parameters_json_schema["required"] == ["item"]
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if not parts:
            return ModelResponse([ToolCallPart("quote", {"item": "lamp", "count": 5})])
        return ModelResponse([TextPart(f"It costs {parts[0].content}.")])

    quote = PLAN.as_tool("pydantic-ai", Runtime([price]), name="quote")
    agent = pydantic_ai.Agent(FunctionModel(scripted), tools=[quote])
    assert (await agent.run("What do lamps cost?")).output == "It costs 20."


# ------------------------------------------------------------------ all


async def test_a_run_that_waits_or_fails_says_so_and_names_itself() -> None:
    from callsheet.api.bridges.frameworks import PlanDidNotFinish, answer_of

    asks = Runtime([price], approve=["price"], on_approval=lambda _: False)
    with pytest.raises(PlanDidNotFinish, match=r"The plan failed: .* \(run "):
        answer_of(await asks.run(PLAN, {"item": "x"}))
    with pytest.raises(ValueError, match="it is langchain"):
        PLAN.as_tool("autogen", Runtime([price]))  # pyright: ignore[reportArgumentType]


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("langchain_core.tools", "agents", "pydantic_ai", "pydantic_ai.tools"):
        monkeypatch.setitem(sys.modules, module, None)
    for bridge in (from_langchain, from_openai_agents, from_pydantic_ai):
        with pytest.raises(CallsheetError, match="CFG233"):
            bridge(price)  # pyright: ignore[reportArgumentType]
    for framework in ("langchain", "openai-agents", "pydantic-ai"):
        with pytest.raises(CallsheetError, match="CFG233"):
            PLAN.as_tool(framework, Runtime([price]))  # pyright: ignore[reportArgumentType]
