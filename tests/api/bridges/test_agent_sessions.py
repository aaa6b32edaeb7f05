"""Agents of pydantic-ai and LangChain, the real ones with scripted models, whose calls are one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from callsheet import AgentSession, CallWithheld, Runtime, tool
from callsheet.apps.cli.main import main
from callsheet.ports.python_tools.declare import tool_of

POLICY = """schema = 1
extends = "workspace"
[tools.PRICE]
egress = false
destructive = false
[tools.PAY]
egress = false
destructive = true
approval = "always"
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    (tmp_path / "house.toml").write_text(POLICY)
    return Runtime(journal=tmp_path / "journal.db", policy=tmp_path / "house.toml")


def price(item: str) -> int:
    """The price of an item."""
    if item == "nothing":
        raise ValueError("there is no such item")
    return len(item)


PAID: list[int] = []


def pay(amount: int) -> str:
    """Pays."""
    PAID.append(amount)
    return f"paid {amount}"


def leak(text: str) -> str:
    """Tells a stranger."""
    raise AssertionError(f"{text} was told")


def recorded_calls(folder: Path, run_id: str) -> list[str]:
    """The events of a session's calls in its journal, as the command line prints them."""
    shown = CliRunner().invoke(main, ["tail", run_id, "--journal", str(folder / "journal.db")])
    assert shown.exit_code == 0, shown.output
    return shown.stdout.splitlines()


async def test_agent_of_pydantic_ai_is_under_policy_and_in_the_journal(
    runtime: Runtime, tmp_path: Path
) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    PAID.clear()
    told: list[str] = []
    script = [
        [ToolCallPart("price", {"item": "lamp"}), ToolCallPart("price", {"item": "rug"})],
        [ToolCallPart("pay", {"amount": 7})],
        [ToolCallPart("leak", {"text": "4"})],
    ]

    def model(messages: list[Any], info: Any) -> ModelResponse:
        assert [tool.name for tool in info.function_tools] == ["price", "pay", "leak"]
        turn = sum(isinstance(each, ModelResponse) for each in messages)
        told.extend(str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return")
        return ModelResponse(parts=script[turn] if turn < len(script) else [TextPart("done")])

    async with AgentSession(runtime, "shopper") as session:
        tools = session.toolset(FunctionToolset([price, pay, leak]), effects={"price": "read"})
        agent = pydantic_ai.Agent(FunctionModel(model), toolsets=[tools])
        assert (await agent.run("buy it")).output == "done"
    assert told[:2] == ["4", "3"]
    assert "waits for the approval of a person" in told[2]
    assert f"callsheet approve {session.run_id}" in told[2]
    assert PAID == []
    assert "no entry for @LEAK" in told[3]
    lines = recorded_calls(tmp_path, session.run_id)
    made = [line for line in lines if "S1.0.1/t1c1" in line]
    assert ["intent" in made[0], '{"value":4}' in made[1]] == [True, True]
    assert any("ask      S1.0.1/t2c1" in line for line in lines)
    assert not any('"LEAK"' in line and "intent" in line for line in lines)


async def test_approval_of_a_call_is_asked_for_in_the_program(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    from callsheet import Answer

    PAID.clear()
    (tmp_path / "house.toml").write_text(POLICY)
    asked: list[str] = []

    def on_approval(ask: Any) -> Any:
        asked.append(ask.tool)
        return Answer.approve(by="ada") if ask.args["amount"] < 10 else Answer.deny(by="ada")

    runtime = Runtime(journal=tmp_path / "j.db", policy=tmp_path / "house.toml", on_approval=on_approval)
    told: list[str] = []
    calls = [{"amount": 7}, {"amount": 70}]

    def model(messages: list[Any], info: Any) -> ModelResponse:
        turn = sum(isinstance(each, ModelResponse) for each in messages)
        told.extend(str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return")
        parts = [ToolCallPart("pay", calls[turn])] if turn < 2 else [TextPart("done")]
        return ModelResponse(parts=parts)

    async with AgentSession(runtime, "payer") as session:
        agent = Agent(FunctionModel(model), toolsets=[session.toolset(FunctionToolset([pay]))])
        await agent.run("pay")
    assert asked == ["PAY", "PAY"]
    assert PAID == [7]
    assert told[0] == "paid 7"
    assert "denied" in told[1]


async def test_call_of_a_paused_session_is_not_made_and_says_by_whom(tmp_path: Path) -> None:
    made: list[str] = []

    async def invoke() -> int:
        made.append("price")
        return 4

    async with AgentSession(Runtime(journal=tmp_path / "j.db"), "shopper") as session:
        session.offer("price", tool_of(tool(effect="read")(price)))
        assert await session.call("price", {"item": "lamp"}, invoke) == 4
        await Runtime(journal=tmp_path / "j.db").pause(session.run_id, by="ada", patience=1)
        with pytest.raises(CallWithheld, match="is paused by ada since"):
            await session.call("price", {"item": "lamp"}, invoke)
    assert made == ["price"]


async def test_agent_of_langchain_is_under_policy_and_in_the_journal(
    runtime: Runtime, tmp_path: Path
) -> None:
    pytest.importorskip("langchain.agents")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    def calls(*named: tuple[str, dict[str, Any]]) -> AIMessage:
        listed = [{"name": name, "args": args, "id": f"{name}-{n}"} for n, (name, args) in enumerate(named)]
        return AIMessage("", tool_calls=listed)

    PAID.clear()
    tools = [tool(price), tool(pay), tool(leak)]
    script = [
        calls(("price", {"item": "lamp"}), ("price", {"item": "rug"})),
        calls(("pay", {"amount": 7})),
        calls(("leak", {"text": "4"})),
        AIMessage("done"),
    ]
    async with AgentSession(runtime, "shopper") as session:
        guard = session.middleware(tools, effects={"price": "read"})
        agent = create_agent(Scripted(messages=iter(script)), tools, middleware=[guard])
        result = await agent.ainvoke({"messages": [("user", "buy it")]})
        other = create_agent(Scripted(messages=iter([script[0]])), tools, middleware=[guard])
        with pytest.raises(RuntimeError, match="ainvoke"):
            other.invoke({"messages": [("user", "buy it")]})
    told = [each for each in result["messages"] if each.type == "tool"]
    assert [each.content for each in told[:2]] == ["4", "3"]
    pays = next(each for each in told if each.name == "pay")
    assert "waits for the approval of a person" in pays.content
    assert pays.status == "error"
    assert PAID == []
    assert "no entry for @LEAK" in next(each for each in told if each.name == "leak").content
    lines = recorded_calls(tmp_path, session.run_id)
    assert sum("intent" in line and "PRICE" in line for line in lines) == 2
    assert any('{"value":"4"}' in line for line in lines)
