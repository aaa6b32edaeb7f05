"""A program that runs one agent and kills itself with SIGKILL before or after its n-th effect.

python -m tests.crash.agent_run JOURNAL LOG before:3
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from callsheet import ChatModel, Runtime, tool

PLAN = """S1: @AGENT_SOLVE (goal="buy what is cheap", tools=["price", "order"]) > $a
S2: @RESPOND ($a)"""
SCRIPT = [
    {"tool": "price", "args": {"item": "pen"}},
    {"tool": "order", "args": {"item": "pen"}},
    {"tool": "order", "args": {"item": "ink"}},
    {"finish": "bought"},
]


def runtime(journal: Path, log: Path, where: str = "") -> Runtime:
    """A runtime whose effects each write a line to the log."""
    when, _, number = where.partition(":")

    def effect(what: str) -> None:
        count = len(log.read_text().splitlines()) + 1
        dies = bool(when) and count == int(number)
        if dies and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as lines:
            lines.write(what + "\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    @tool(effect="read")
    def price(item: str) -> int:
        effect(f"price {item}")
        return 7

    @tool(effect="unsafe")
    def order(item: str) -> str:
        effect(f"order {item}")
        return "ordered"

    def answer(messages: list[dict[str, str]]) -> str:
        turn = sum(message["role"] == "assistant" for message in messages)
        effect(f"asked {turn + 1}")
        return json.dumps(SCRIPT[turn])

    return Runtime([price, order], model=ChatModel(answer), journal=journal)


if __name__ == "__main__":
    runtime(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]).run_sync(PLAN, run_id="r")
