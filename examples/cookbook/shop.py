"""Tools of a small shop, for the plans of the cookbook."""

from pathlib import Path
from typing import TypedDict

from callsheet import ToolFailed, tool


class Order(TypedDict):
    id: int
    city: str
    total: float
    state: str
    placed: str


ORDERS: list[Order] = [
    {"id": 1, "city": "Oslo", "total": 40.0, "state": "open", "placed": "2026-03-02"},
    {"id": 2, "city": "Rome", "total": 80.5, "state": "open", "placed": "2026-03-09"},
    {"id": 3, "city": "Oslo", "total": 12.25, "state": "paid", "placed": "2026-02-27"},
]


@tool(effect="read")
def orders() -> list[Order]:
    return ORDERS


@tool(effect="read")
def stock(id: int) -> dict[str, int]:
    if id == 2:
        raise ToolFailed("the warehouse does not know 2")
    return {"id": id, "pieces": 10 * id}


@tool(effect="read")
def flaky() -> str:
    tries = Path("tries.txt")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) < 3:
        raise ToolFailed("busy")
    return "here after three tries"


@tool(effect="idempotent")
def work() -> dict[str, int]:
    done = Path("done.txt")
    done.write_text(done.read_text() + "x" if done.exists() else "x")
    return {"percent": 40 * len(done.read_text())}


@tool(effect="unsafe")
def pay(id: int, amount: float) -> str:
    with Path("paid.txt").open("a") as file:
        file.write(f"{id} {amount}\n")
    return f"paid {amount}"


@tool(effect="read")
def login(token: str) -> str:
    return f"welcome, you said {token}"
