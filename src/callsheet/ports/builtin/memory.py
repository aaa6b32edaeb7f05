"""`@STORE_FACT`, `@QUERY_MEMORY`, `@SET_WM`, `@GET_WM`: facts that outlast a run, and values of one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.ir import JSON, Effect
from callsheet.machine import Cut
from callsheet.ports.builtin.declare import TEXT, declare, in_thread, number_argument, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    import sqlite3

_TABLES = """
CREATE TABLE IF NOT EXISTS fact (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    importance REAL NOT NULL,
    stored_at REAL NOT NULL,
    UNIQUE (namespace, content)
);
CREATE TABLE IF NOT EXISTS delivery (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    fact INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS fact_text
    USING fts5 (content, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE IF NOT EXISTS working (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, run, key)
) WITHOUT ROWID;
"""


_PATIENCE = 10.0
"""Seconds that a connection waits for a lock."""


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """A connection in a transaction that is committed at the end; raises ToolFailed if that fails."""
    import sqlite3  # noqa: PLC0415 - only runs that remember something need it

    connection: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        _prepare(connection)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise ToolFailed(f"memory cannot be used: {error}") from None
    except OSError as error:
        raise ToolFailed(f"memory cannot be used: {error.strerror or error}") from None
    finally:
        if connection is not None:
            connection.close()


def _into_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode, retrying while it is locked: SQLite's busy timeout does not cover this."""
    import sqlite3  # noqa: PLC0415 - as above

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _prepare(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'working'").fetchone():
        return
    if not connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]:
        raise ToolFailed("memory needs SQLite with FTS5, which this Python's SQLite lacks")
    _into_wal(connection)
    connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")


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
            result=TEXT,
            effect=Effect.READ,
        ),
        declare(
            "STORE_FACT",
            "Store a fact for later runs.",
            {"content": TEXT, "importance": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5}},
            partial(_store_fact, settings),
            result=TEXT,
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


async def _store_fact(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
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


_MAX_VALUE = 10_000_000


def working_memory_tools(settings: BuiltinSettings) -> list[Tool]:
    """The two tools of a run's working memory."""
    return [
        declare(
            "SET_WM",
            "Store a value under a name for the rest of this run.",
            {"key": TEXT, "value": {"description": "any value"}},
            partial(_set, settings),
            effect=Effect.IDEMPOTENT,
        ),
        declare(
            "GET_WM",
            "Get the value that this run stored under a name; null if there is none.",
            {"key": TEXT},
            partial(_get, settings),
            effect=Effect.READ,
        ),
    ]


async def _set(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    key = text_argument(arguments, "key")
    if "value" not in arguments:
        raise ToolFailed("the argument value is missing")
    text = json.dumps(arguments["value"])
    if len(text) > _MAX_VALUE:
        raise ToolFailed(f"the value is larger than {_MAX_VALUE} characters")
    await in_thread(_store_note, settings, context.run_id, key, text)
    return arguments["value"]


async def _get(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    text = await in_thread(_look_up, settings, context.run_id, text_argument(arguments, "key"))
    return None if text is None else json.loads(text)


def _store_note(settings: BuiltinSettings, run: str, key: str, text: str) -> None:
    row = (settings.namespace, run, key.encode(errors="replace").decode(), text)
    with opened(settings.memory) as db:
        db.execute("INSERT OR REPLACE INTO working (namespace, run, key, value) VALUES (?, ?, ?, ?)", row)


def _look_up(settings: BuiltinSettings, run: str, key: str) -> str | None:
    if not settings.memory.exists():
        return None
    place = (settings.namespace, run, key.encode(errors="replace").decode())
    with opened(settings.memory) as db:
        row = db.execute(
            "SELECT value FROM working WHERE namespace = ? AND run = ? AND key = ?", place
        ).fetchone()
    return None if row is None else str(row[0])
