"""Memory and working memory in a real SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.machine import Cut
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.builtin.memory import find_facts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry


async def call(
    place: Path,
    tool: str,
    *,
    delivery: str = "key",
    run: str = "run",
    namespace: str = "default",
    **arguments: Any,
) -> Any:
    built = builtin_tools(BuiltinSettings(workspace=place, data=place / "data", namespace=namespace))
    return await Registry(built).require(tool).handler(arguments, CallContext(run, "S1", delivery))


async def test_stored_fact_is_found_by_words(tmp_path):
    assert await call(tmp_path, "QUERY_MEMORY", query="Tom Holland height") == ""
    await call(tmp_path, "STORE_FACT", content="Tom Holland height: 1.73 m", importance=0.6)
    for query in ("Tom Holland height", "the height of TOM HOLLAND", "heights of hollands"):
        assert await call(tmp_path, "QUERY_MEMORY", query=query) == "Tom Holland height: 1.73 m"


async def test_fact_sharing_few_words_is_not_found(tmp_path):
    await call(tmp_path, "STORE_FACT", content="The diner of Tom opens at nine")
    assert await call(tmp_path, "QUERY_MEMORY", query="Tom Holland height") == ""


async def test_redelivery_stores_nothing(tmp_path):
    for _ in range(3):
        await call(tmp_path, "STORE_FACT", content="told once", delivery="same")
    await call(tmp_path, "STORE_FACT", content="another text under the same key", delivery="same")
    assert await call(tmp_path, "QUERY_MEMORY", query="told once") == "told once"
    assert await call(tmp_path, "QUERY_MEMORY", query="another text") == ""


async def test_same_fact_of_different_call_is_stored_once_with_highest_importance(tmp_path):
    for key, importance in (("a", 0.2), ("b", 0.9), ("c", 0.4)):
        await call(tmp_path, "STORE_FACT", content="one fact", importance=importance, delivery=key)
    with closing(sqlite3.connect(tmp_path / "data" / "memory.sqlite3")) as db, db:
        assert db.execute("SELECT content, importance FROM fact").fetchall() == [("one fact", 0.9)]
    db.close()


async def test_more_important_of_similar_facts_comes_first(tmp_path):
    for number, importance in ((1, 0.1), (2, 0.9), (3, 0.5)):
        await call(
            tmp_path,
            "STORE_FACT",
            content=f"bug number {number}",
            importance=importance,
            delivery=str(number),
        )
    found = await call(tmp_path, "QUERY_MEMORY", query="bug number")
    assert found.splitlines() == ["bug number 2", "bug number 3", "bug number 1"]


async def test_namespaces_are_isolated(tmp_path):
    await call(tmp_path, "STORE_FACT", content="a fact of ann", namespace="ann")
    assert await call(tmp_path, "QUERY_MEMORY", query="fact", namespace="bob") == ""
    assert await call(tmp_path, "QUERY_MEMORY", query="fact", namespace="ann") == "a fact of ann"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text()
    | st.sampled_from(['"', "a OR b", "NEAR(a b)", "content:a", "a*", "-a", "(", "'; DROP TABLE fact", "^a"])
)
async def test_query_has_no_operators(tmp_path, query):
    """Every text is a query that returns facts or none, and never an error."""
    await call(tmp_path, "STORE_FACT", content="a plain fact")
    place = BuiltinSettings(workspace=tmp_path, data=tmp_path / "data")
    assert find_facts(place, query) in ([], ["a plain fact"])


async def test_concurrent_writers_lose_nothing(tmp_path):
    await asyncio.gather(
        *(call(tmp_path, "STORE_FACT", content=f"fact {n}", delivery=str(n)) for n in range(20)),
        *(call(tmp_path, "SET_WM", key=str(n), value=n) for n in range(20)),
    )
    with closing(sqlite3.connect(tmp_path / "data" / "memory.sqlite3")) as db, db:
        assert db.execute(
            "SELECT (SELECT count(*) FROM fact), (SELECT count(*) FROM working)"
        ).fetchone() == (20, 20)
    db.close()


@pytest.mark.parametrize(
    "arguments", [{}, {"content": " "}, {"content": "x", "importance": "high"}, {"content": ["x"]}]
)
async def test_invalid_fact_is_refused(tmp_path, arguments):
    with pytest.raises(ToolFailed, match="argument"):
        await call(tmp_path, "STORE_FACT", **arguments)


async def test_corrupt_file_is_failure(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "memory.sqlite3").write_text("this is no database" * 100)
    with pytest.raises(ToolFailed, match="memory cannot be used"):
        await call(tmp_path, "QUERY_MEMORY", query="x")


async def test_working_memory_is_per_run(tmp_path):
    assert await call(tmp_path, "GET_WM", run="r1", key="k") is None
    assert await call(tmp_path, "SET_WM", run="r1", key="k", value={"a": [1, None]}) == {"a": [1, None]}
    assert await call(tmp_path, "GET_WM", run="r1", key="k") == {"a": [1, None]}
    assert await call(tmp_path, "GET_WM", run="r2", key="k") is None
    await call(tmp_path, "SET_WM", run="r1", key="k", value=None)
    assert await call(tmp_path, "GET_WM", run="r1", key="k") is None
    with pytest.raises(ToolFailed, match="value is missing"):
        await call(tmp_path, "SET_WM", run="r1", key="k")


@pytest.mark.parametrize(
    ("stored", "words", "remarks"),
    [
        (10, 1, ()),
        (11, 1, (Cut("facts", 10, None, "rows"),)),
        (1, 33, (Cut("the query", 32, 33, "words"),)),
    ],
)
async def test_omitted_results_are_remarked(tmp_path, stored, words, remarks):
    for number in range(stored):
        await call(tmp_path, "STORE_FACT", content=f"apple {number}", delivery=str(number))
    built = builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path / "data"))
    context = CallContext("run", "S1")
    query = " ".join(["apple", *(f"w{n}" for n in range(1, words))])
    found = await Registry(built).require("QUERY_MEMORY").handler({"query": query}, context)
    assert len(str(found).splitlines()) == (0 if words > 1 else min(stored, 10))
    assert context.remarks == remarks
