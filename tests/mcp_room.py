"""A folder with tools, plans and a journal, and clients of an MCP server on them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from callsheet.api.policies import load_policy
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server import make_server
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.machine import Limits
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

TOOLS = '''
"""Tools of the tests: each leaves a line in calls.txt when it is called."""
import asyncio
from pathlib import Path

from callsheet.ports.python_tools import tool

HERE = Path(__file__).parent


def mark(line):
    with open(HERE / "calls.txt", "a") as file:
        file.write(line + "\\n")


@tool(effect="read")
def look(what: str) -> str:
    mark(f"look {what}")
    return f"seen {what}"


@tool(effect="idempotent")
def unsend(text: str) -> str:
    mark(f"unsend {text}")
    return "unsent"


@tool(undo="unsend(text=call.text)")
def send(text: str) -> str:
    mark(f"send {text}")
    return f"sent {text}"


@tool
async def slow(text: str) -> str:
    mark(f"slow {text}")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return f"slowly {text}"


@tool(effect="read")
def broken() -> str:
    raise RuntimeError("it is broken")
'''

MODEL = '''
"""A model of the tests: a function from messages to an answer."""


def ask(messages):
    told = str(messages)
    if "JSON" in told and "depends_on" in told:
        return """{"title": "Look at tea", "steps": [
            {"index": "1", "title": "Look", "tool": "look", "args": {"what": "tea"}, "depends_on": [],
             "result_variable": "seen"}]}"""
    return 'S1: @look (what="tea") > $seen\\nS2: @respond ($seen)'
'''

Answering = Callable[[ElicitRequestParams], ElicitResult]


@dataclass
class Room:
    """A folder with tools, and a server on them."""

    folder: Path
    asked: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])

    @property
    def calls(self) -> list[str]:
        """The calls that the tools received."""
        place = self.folder / "calls.txt"
        return place.read_text().splitlines() if place.exists() else []

    def let_go(self) -> None:
        """Release slow calls."""
        (self.folder / "go").touch()

    def setup(self, *, model: bool = False) -> Setup:
        """The tools of the folder, and its model if wanted."""
        return Setup(
            workspace=self.folder / "work",
            data=self.folder / "data",
            tools_files=(self.folder / "tools.py",),
            discovers=False,
            model=f"{self.folder / 'model.py'}:ask" if model else "",
        )

    @asynccontextmanager
    async def bench(
        self,
        *,
        policy: str = "",
        approve: tuple[str, ...] = (),
        model: bool = False,
        lets_clients_answer: bool = False,
        limits: Limits | None = None,
    ) -> AsyncGenerator[ServerContext]:
        """A bench on the journal and the plans of the folder."""
        setup = self.setup(model=model)
        setup = replace(setup, settings=replace(setup.settings, approve=approve))
        held = load_policy(policy) if policy else None
        with Journal.open(self.folder / "journal.db") as journal:
            async with Host(setup, journal, limits=limits, policy=held) as host:
                library = PlanLibrary(self.folder / "plans")
                yield ServerContext(host=host, library=library, clients_may_answer=lets_clients_answer)

    @asynccontextmanager
    async def client(
        self,
        mode: str,
        answering: Answering | None = None,
        hearing: Callable[[Any], Awaitable[None]] | None = None,
        **decided: Any,
    ) -> AsyncGenerator[Client]:
        """A client of a server on such a bench; `answering` is the person, `hearing` gets notifications."""

        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            self.asked.append(params)
            assert answering is not None
            return answering(params)

        async with self.bench(**decided) as bench:
            callback = None if answering is None else elicit
            server = make_server(bench)
            async with Client(
                server, mode=mode, elicitation_callback=callback, message_handler=hearing
            ) as client:
                yield client
