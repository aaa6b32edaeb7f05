"""A real workspace, memory and outside server, and runs on them under a policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtime.tools import plan_of, route_to

from callsheet.ir import JSON, Effect, Plan, plan_hash
from callsheet.ir.labels import read_label
from callsheet.machine import Decision, Limits, PolicyRefusal, Status, ToolFacts
from callsheet.policy.model import Policy, SourceRule, ToolRule
from callsheet.ports.builtin import BuiltinSettings
from callsheet.ports.builtin.files import file_tools
from callsheet.ports.builtin.memory import memory_tools, working_memory_tools
from callsheet.ports.calls import CallContext
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import Journal
from callsheet.store.start import Start

FACTS = {
    "READ_FILE": ToolFacts(Effect.READ, ("path",)),
    "WRITE_FILE": ToolFacts(Effect.IDEMPOTENT, ("path", "content")),
    "SEARCH_FILES": ToolFacts(Effect.READ, ("pattern", "path", "glob")),
    "STORE_FACT": ToolFacts(Effect.KEYED, ("content",)),
    "QUERY_MEMORY": ToolFacts(Effect.READ, ("query",)),
    "SET_WM": ToolFacts(Effect.IDEMPOTENT, ("key", "value")),
    "GET_WM": ToolFacts(Effect.READ, ("key",)),
    "WEB_SEARCH": ToolFacts(Effect.READ, ("query",)),
    "PAY": ToolFacts(Effect.UNSAFE, ("to", "amount")),
    "NOTE": ToolFacts(Effect.UNSAFE, ("text",)),
}
SECRET = read_label("T/secret")
POLICY = Policy(
    sources=(
        SourceRule(kind="file", pattern="docs/**", label=read_label("T/pub")),
        SourceRule(kind="file", pattern="box/**", label=SECRET),
    ),
    tools={
        "PAY": ToolRule(
            egress=False, control=("to", "amount"), destructive=True, returns=read_label("T/pub")
        ),
        "NOTE": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub")),
    },
)


@dataclass
class World:
    """The world of the runs of these tests. `sent` is what left, `paid` what was paid."""

    folder: Path
    journal: Journal
    policy: Policy = POLICY
    sent: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paid: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tools: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    """Ports besides the tools."""

    def __post_init__(self) -> None:
        settings = BuiltinSettings(workspace=self.folder, data=self.folder.parent / "data")
        for tool in (*file_tools(settings), *memory_tools(settings), *working_memory_tools(settings)):
            self.tools[tool.spec.name] = tool.handler
        self.tools |= {"WEB_SEARCH": self._search, "PAY": self._pay, "NOTE": self._note}
        self.tools = {name: _async(tool) for name, tool in self.tools.items()}

    def _search(self, args: dict[str, Any]) -> JSON:
        self.sent.append(args)
        return "a page"

    def _pay(self, args: dict[str, Any]) -> JSON:
        self.paid.append(args)
        return "paid"

    def _note(self, args: dict[str, Any]) -> JSON:
        return args["text"]

    def ports(self) -> Ports:
        return Ports(route_to(self.tools), workspace=str(self.folder), **self.more)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def launch(self, plan: Plan, inputs: Mapping[str, JSON], facts: Mapping[str, ToolFacts]) -> Launch:
        limits = Limits(retry_delay=0.0)
        known = {**FACTS, **facts}
        return Launch(known, inputs=inputs, limits=limits, policy=self.policy, verified=plan_hash(plan))

    async def run(
        self,
        text: str | Plan,
        run_id: str = "run",
        *,
        facts: Mapping[str, ToolFacts] | None = None,
        present: Respondents | None = None,
        **inputs: JSON,
    ) -> RunOutcome:
        plan = plan_of(text) if isinstance(text, str) else text
        launch = self.launch(plan, inputs, facts or {})
        said = present or Respondents()
        return await start_run(plan, self.ports(), launch, self.journal, run_id, present=said)

    async def resume(self, run_id: str = "run", in_doubt: Decision | None = None) -> RunOutcome:
        @asynccontextmanager
        async def ports(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
            yield self.ports()

        return await resume_run(self.journal, run_id, ports, Amendments(in_doubt=in_doubt))


def _async(tool: Any) -> Any:
    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        given = getattr(tool, "__code__", None)
        made = (
            tool(args)
            if given is not None and given.co_argcount == 2 and given.co_varnames[0] == "self"
            else tool(args, context)
        )
        return await made if hasattr(made, "__await__") else made

    return call


def refusal(outcome: RunOutcome) -> PolicyRefusal:
    assert outcome.result is not None
    assert outcome.result.status is Status.REFUSED
    assert outcome.result.objection is not None
    return outcome.result.objection
