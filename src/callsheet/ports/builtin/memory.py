"""`@STORE_FACT` and `@QUERY_MEMORY`: facts that outlast a run, with full-text search."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from callsheet.ir import JSON, Effect
from callsheet.machine import Cut
from callsheet.ports.builtin.database import opened
from callsheet.ports.builtin.declare import TEXT, declare, number_argument, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.builtin.threads import in_thread
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    import sqlite3

_WORD = re.compile(r"\w+")
_MAX_WORDS = 32
_MAX_FACT = 100_000
_MAX_FOUND = 10


def memory_tools(settings: BuiltinSettings) -> list[Tool]:
    """The two tools for the memory of the settings' namespace."""
    return [
        declare(
            "QUERY_MEMORY",
            "Search the facts stored by earlier runs; returns the best, one per line, or an empty text.",
            {"query": TEXT},
            partial(_query, settings),
            effect=Effect.READ,
        ),
        declare(
            "STORE_FACT",
            "Store a fact for later runs.",
            {"content": TEXT, "importance": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5}},
            partial(_store, settings),
            effect=Effect.KEYED,
            required=["content"],
        ),
    ]


async def _query(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    query = text_argument(arguments, "query")
    words = len(_words(query))
    if words > _MAX_WORDS:
        context.remark(Cut("the query", _MAX_WORDS, words, "words"))
    facts = await in_thread(find_facts, settings, query, _MAX_FOUND + 1)
    if len(facts) > _MAX_FOUND:
        context.remark(Cut("facts", _MAX_FOUND, None, "rows"))
    return "\n".join(facts[:_MAX_FOUND])


async def _store(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    content = text_argument(arguments, "content").strip()
    importance = min(max(number_argument(arguments, "importance", 0.5), 0.0), 1.0)
    if not content:
        raise ToolFailed("the argument content is empty")
    if len(content) > _MAX_FACT:
        raise ToolFailed(f"the fact is longer than {_MAX_FACT} characters")
    await in_thread(store_fact, settings, content, importance, context.idempotency_key)
    return "stored"


def store_fact(settings: BuiltinSettings, content: str, importance: float, key: str) -> None:
    """Store a fact, once per key; storing the same text again only raises its importance."""
    content = content.encode(errors="replace").decode()
    namespace = settings.namespace
    with opened(settings.memory) as db:
        if db.execute("SELECT 1 FROM delivery WHERE namespace = ? AND key = ?", (namespace, key)).fetchone():
            return
        row = db.execute(
            "SELECT id, importance FROM fact WHERE namespace = ? AND content = ?", (namespace, content)
        ).fetchone()
        if row is None:
            fact = _insert(db, namespace, key, content, importance)
        else:
            fact = row[0]
            db.execute("UPDATE fact SET importance = ? WHERE id = ?", (max(importance, row[1]), fact))
        db.execute("INSERT INTO delivery VALUES (?, ?, ?)", (namespace, key, fact))


def _insert(db: sqlite3.Connection, namespace: str, key: str, content: str, importance: float) -> int:
    cursor = db.execute(
        "INSERT INTO fact (namespace, key, content, importance, stored_at) VALUES (?, ?, ?, ?, ?)",
        (namespace, key, content, importance, time.time()),
    )
    db.execute("INSERT INTO fact_text (rowid, content) VALUES (?, ?)", (cursor.lastrowid, content))
    return int(cursor.lastrowid or 0)


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(word.casefold() for word in _WORD.findall(query)))


def find_facts(settings: BuiltinSettings, query: str, most: int = _MAX_FOUND) -> list[str]:
    """The facts that contain at least half of the query's words (of its first 32), best first.

    The rank is BM25 weighted by importance: importance 1 counts three times as much as 0. Words are compared
    by stem, ignoring case and accents; no query syntax is interpreted.
    """
    words = _words(query)[:_MAX_WORDS]
    if not words:
        return []
    terms = [f'"{word}"' for word in words]
    having = " UNION ALL ".join(["SELECT rowid AS id FROM fact_text WHERE fact_text MATCH ?"] * len(terms))
    sql = f"""
        WITH enough AS (SELECT id FROM ({having}) GROUP BY id HAVING count(*) * 2 >= ?)
        SELECT fact.content FROM fact_text JOIN fact ON fact.id = fact_text.rowid
        WHERE fact_text MATCH ? AND fact.namespace = ? AND fact.id IN enough
        ORDER BY bm25(fact_text) * (0.5 + fact.importance), fact.id DESC LIMIT ?
    """
    parameters = (*terms, len(terms), " OR ".join(terms), settings.namespace, most)
    if not settings.memory.exists():
        return []
    with opened(settings.memory) as db:
        return [str(row[0]) for row in db.execute(sql, parameters)]
