"""Runs of a gate as tasks: a client that can have tasks gets the result of a long run later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from tests.apps.gate.test_gate import Desk, desk, text_of

from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.hosting import Host
from callsheet.apps.mcp import running
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.ports.mcp.tasks import ServerTask, TaskExtension, result_of_task
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

__all__ = ["desk"]
SLOW = "async def main():\n    return await slow(seconds=0.6)\n"
SENDS = """async def main():
    await slow(seconds=0.3)
    for name in ["ann", "bob"]:
        sent = await send_mail(to=name, text="hello")
    return sent
"""


class Clients:
    """Clients of a gate whose runs become tasks at once."""

    def __init__(self, desk: Desk, approve: tuple[str, ...] = ()) -> None:
        setup = Setup(
            workspace=desk.folder, data=desk.folder / "data", mcp_configs=(desk.config,), discovers=False
        )
        setup = replace(setup, settings=replace(setup.settings, approve=approve))
        self.journal = Journal.open(desk.journal)
        self.host = Host(setup, self.journal)
        self.folder = desk.folder
        self.asked: list[str] = []

    def client(self, gate: Gate, *, tasks: bool = True) -> Client:
        async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
            self.asked.append(params.message)
            fields = getattr(params, "requested_schema", {}).get("properties", {})
            boxes = {name: True for name in ("approve", "program") if name in fields}
            return types.ElicitResult(action="accept", content={**boxes})

        extensions = [TaskExtension()] if tasks else []
        return Client(
            make_server(gate), mode="2026-07-28", elicitation_callback=elicit, extensions=extensions
        )

    def gate(self) -> Gate:
        context = ServerContext(host=self.host, library=PlanLibrary(self.folder / "plans"))
        return Gate(context, Expose.PROGRAM)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.01)


async def request(client: Client, method: str, task: str, **more: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    asked = types.Request[dict[str, Any], str](method=method, params={"taskId": task, **more})
    return await client.session.send_request(asked, TypeAdapter(dict[str, Any]))  # type: ignore[arg-type]


async def test_long_run_is_a_task_whose_result_comes_later(desk: Desk) -> None:
    clients = Clients(desk)
    with clients.journal:
        async with clients.host, clients.gate() as gate, clients.client(gate) as client:
            begun = await client.session.call_tool("run_program", {"code": SLOW}, allow_claimed=True)
            assert isinstance(begun, ServerTask)
            assert (await request(client, "tasks/get", begun.task_id))["status"] == "working"
            result = await client.call_tool("run_program", {"code": SLOW})  # the SDK's client waits for it
            assert "done" in text_of(result)
            state = await request(client, "tasks/get", begun.task_id)
            assert (state["status"], state["resultType"]) == ("completed", "complete")
            with pytest.raises(MCPError, match="no task"):
                await request(client, "tasks/get", "20200101-0000-aaaaaa")


async def test_task_that_needs_an_answer_asks_once_for_all_its_calls(desk: Desk) -> None:
    clients = Clients(desk, approve=("SEND_MAIL",))
    with clients.journal:
        async with clients.host, clients.gate() as gate, clients.client(gate) as client:
            begun = await client.session.call_tool("run_program", {"code": SENDS}, allow_claimed=True)
            assert isinstance(begun, ServerTask)
            result = await result_of_task(client.session, begun.task_id, 20, None)
            assert "sent to bob" in text_of(result)
    assert len(clients.asked) == 1
    assert "may send_mail be called" in clients.asked[0]
    assert desk.log == ["slow", "send ann: hello", "send bob: hello"]


async def test_cancelled_task_ends_its_run(desk: Desk) -> None:
    clients = Clients(desk)
    with clients.journal:
        async with clients.host, clients.gate() as gate, clients.client(gate) as client:
            slow = SLOW.replace("0.6", "60")
            begun = await client.session.call_tool("run_program", {"code": slow}, allow_claimed=True)
            assert isinstance(begun, ServerTask)
            await request(client, "tasks/cancel", begun.task_id)
            await clients.host.wait(begun.task_id, 10)
            assert (await request(client, "tasks/get", begun.task_id))["status"] == "cancelled"


async def test_client_without_tasks_waits_and_may_not_ask_for_them(desk: Desk) -> None:
    clients = Clients(desk)
    with clients.journal:
        async with clients.host, clients.gate() as gate, clients.client(gate, tasks=False) as client:
            assert "done" in text_of(await client.call_tool("run_program", {"code": SLOW}))
            with pytest.raises(MCPError, match="Missing required client capability"):
                await request(client, "tasks/get", "20200101-0000-aaaaaa")
