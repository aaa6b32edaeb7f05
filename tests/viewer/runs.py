"""Runs for tests of the viewer: one with every feature, one with hostile texts, long ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from callsheet import AgentAnswer, AgentTask, Limits, Runtime, tool
from callsheet.runtime.reporting import report_document, report_page
from callsheet.store import Durability, Journal
from callsheet.trace.lctl.emit import Work
from callsheet.trace.lctl.model import Fact
from callsheet.trace.lctl.receive import receive
from callsheet.trace.lctl.write import write

HOSTILE = (
    "<img src=x onerror=\"window.bad='img'\">",
    "</script><script>window.bad='script'</script>",
    "<!--<script>",
    "javascript:window.bad='url'",
    "${window.bad='template'}\u2028\u2029\u202e",
    '"><svg onload=window.bad=1>',
)
TRIAGE = """\
# ltp: 1
# goal: Triage the tickets
PLAN_START
S1: @TICKETS (folder="inbox") > $tickets
@PARALLEL {
  S2: @FORECAST (city=$city) > $weather
  S3: @RATES > $rates
}
S4: ?IF (IS_EMPTY($tickets)) THEN @RESPOND ("Nothing to do.")
S5: ?FOREACH ($t IN $tickets) THEN @CUSTOMER (number=$t.id) > $customers
S6: @LLM_CLASSIFY ($tickets.0.body, categories=["refund", "praise"]) > $kind
S7: @LLM_EXTRACT ($tickets.0.body, target="the amount") > $total:float
S8: @BOOK (x="$kind $total") > $booked ON_FAIL @RETRY(3)
S9: @PAY (amount=$total, to=$customers.0.name) > $receipt ON_FAIL TERMINATE ("could not pay $total: $receipt")
S10: @RESPOND ("Paid $total", $receipt)
PLAN_END
"""

WAITS = """\
# goal: Pay what is owed
S1: @RATES > $rates
S2: @CALC ("10 * 12") > $price
S3: ?IF ($price > 1000) THEN @RATES > $other
S4: @FORMAT ("of $other") > $text
S5: @AGENT_SOLVE ("what is it?", $price) > $found
S6: @ASK_HUMAN (prompt="Pay $price?", options=["yes", "no"]) > $ok
S7: @RESPOND ("$ok $found")
"""


def _doubting(task: AgentTask) -> AgentAnswer:
    """An agent that takes over the block it receives, and is unsure of its findings."""
    got = receive(task.lctl)
    work = Work(
        agent=got.document.chain.target or "",
        to="caller",
        instruction="go on",
        facts=[Fact("A1", "it is a door", 0.5)],
        critical=["A1"],
    )
    return AgentAnswer("a door", write(got.hand_on(work)))


def _tools() -> list[Callable[..., object]]:
    tries = iter(range(100))

    @tool(effect="read")
    def tickets(folder: str) -> list[dict[str, object]]:
        return [{"id": n, "subject": text, "body": text} for n, text in enumerate(HOSTILE)]

    @tool(effect="read")
    def forecast(city: str) -> dict[str, object]:
        return {"city": city, "rain": 12}

    @tool(effect="read")
    def rates() -> dict[str, object]:
        return {"EUR": 1, "exact": 12345678901234567890}

    @tool(effect="read")
    def customer(number: int) -> dict[str, object]:
        return {"id": number, "name": ("Ada", "Grace", "Linus")[number % 3]}

    @tool(effect="idempotent")
    def book(x: str) -> str:
        if next(tries) % 3 < 2:
            raise RuntimeError("503, try again")
        return f"booked {x}"

    @tool
    def pay(amount: object, to: str) -> str:
        raise RuntimeError(HOSTILE[0])

    return [tickets, forecast, rates, customer, book, pay]


@tool(effect="pure")
def work(x: int) -> dict[str, object]:
    """An item of work."""
    return {"n": x, "label": f"item {x}"}


class Runs:
    """Runs in a separate journal, by name, and the pages of their reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._makers: dict[str, Callable[[Journal], Awaitable[None]]] = {
            "triage": lambda journal: self._triage(journal, "triage", "Oslo"),
            "other": lambda journal: self._triage(journal, "other", "Bergen"),
            "long": self._long,
            "loop": self._loop,
            "waits": self._waits,
            "turns": self._turns,
        }

    async def page(self, run: str, other: str | None = None) -> Path:
        """The page of a run."""
        path = self.folder / f"{run}-{other}.html"
        if not path.exists():
            with Journal.open(self.folder / "journal.db", Durability.OFF) as journal:
                for name in filter(None, (run, other)):
                    if not any(info.run_id == name for info in journal.runs()):
                        await self._makers[name](journal)
                path.write_text(report_page(report_document(journal, run, "callsheet test", other=other)))
        return path

    async def _triage(self, journal: Journal, run: str, city: str) -> None:
        async with Runtime(
            _tools(),
            model=lambda _prompt: "refund",
            journal=journal,
            limits=Limits(retry_delay=0.0, schedule="sequential"),
        ) as runtime:
            await runtime.run(TRIAGE, {"city": city}, run_id=run)

    async def _long(self, journal: Journal) -> None:
        """More than 6,000 events of one step."""
        plan = 'S1: ?FOREACH ($i IN $items) THEN @WORK (x=$i) > $done\nS2: @RESPOND ("$done.0.label")'
        limits = Limits(max_items=3_000, max_calls=3_000)
        async with Runtime([work], journal=journal, limits=limits) as runtime:
            await runtime.run(plan, {"items": list(range(3_000))}, run_id="long")

    async def _waits(self, journal: Journal) -> None:
        """A run with an agent that waits for a person."""
        async with Runtime(
            _tools(), agent=_doubting, agent_blocks="flag", journal=journal, schedule="sequential"
        ) as runtime:
            await runtime.run(WAITS, run_id="waits")

    async def _turns(self, journal: Journal) -> None:
        """Members of a group that take turns, and two items that fail at first, each with a traceback."""
        plan = (
            "@PARALLEL {\n  S1: @HOLD (x=1) > $a\n  S2: @HOLD (x=2) > $b\n}\n"
            "S3: ?FOREACH ($i IN [1, 2]) THEN @MOODY (x=$i) > $c ON_FAIL @RETRY(3)"
        )
        failed: set[int] = set()

        @tool(effect="read")
        async def hold(x: int) -> int:
            await asyncio.sleep(0.2)
            return x

        @tool(effect="read")
        def moody(x: int) -> int:
            if x not in failed:
                failed.add(x)
                raise RuntimeError(f"{'no such thing as ' * 20}{x}")
            return x

        limits = Limits(max_concurrency_by_tool={"HOLD": 1}, retry_delay=0.0)
        async with Runtime([hold, moody], journal=journal, limits=limits) as runtime:
            await runtime.run(plan, run_id="turns")

    async def _loop(self, journal: Journal) -> None:
        """300 visits of each of three steps."""
        plan = (
            'S1: @CALC ("$n + 1") > $n\nS2: @WORK (x=$n) > $done\n'
            'S3: ?IF ($n < 300) THEN GOTO S1\nS4: @RESPOND ("$done.label")'
        )
        async with Runtime([work], journal=journal) as runtime:
            await runtime.run(plan, {"n": 0}, run_id="loop")
