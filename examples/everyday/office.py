"""Makes the data of a small office in this folder, for the plans beside it: python office.py"""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

TODAY = date.today()

TABLES = {
    "invoices": ["id", "customer", "amount", "due", "state"],
    "payments": ["id", "reference", "amount"],
    "stock": ["item", "pieces", "least", "supplier"],
    "orders": ["id", "item", "pieces"],
    "expenses": ["day", "category", "amount"],
    "contacts": ["id", "name", "email"],
    "customers": ["id", "name", "city"],
    "tickets": ["id", "title", "state", "owner"],
    "tasks": ["id", "who", "what", "state"],
    "bookings": ["id", "room", "day", "start", "end"],
    "hours": ["person", "project", "day", "hours"],
    "subscriptions": ["id", "name", "price", "renews", "state"],
}

ROWS = {
    "invoices": [
        (1, "Chez L'Ami Jean", 40.5, "2026-03-01", "open"),
        (2, "Bo", 10.0, "2999-12-31", "open"),
        (3, "Cy", 99.0, "2026-02-01", "paid"),
    ],
    "payments": [(1, "2", 10.0), (2, "the rent", 800.0)],
    "stock": [("screws", 20, 50, "Bo"), ("nails", 90, 50, "Cy")],
    "expenses": [
        ("2026-03-01", "travel", 80.0),
        ("2026-03-09", "food", 12.5),
        ("2026-03-10", "travel", 20.0),
    ],
    "contacts": [(1, "Ada", "ada@example.test"), (2, "A. Example", "ADA@example.test")],
    "customers": [(1, "Ada", "Oslo"), (2, "Bo", "Rome")],
    "tickets": [(1, "It stops when it rains", "open", None), (2, "How do I print?", "new", None)],
    "bookings": [(1, "Fjord", "2026-03-02", "09:00", "12:00")],
    "hours": [
        ("Ada", "map", "2026-03-02", 30.0),
        ("Ada", "menu", "2026-03-05", 12.0),
        ("Bo", "map", "2026-03-03", 8.0),
    ],
    "subscriptions": [(1, "News", 9.5, str(TODAY + timedelta(days=2)), "active")],
}

FILES = {
    "meeting.txt": "We met on Monday.\nACTION Ada: call Bo\nACTION Bo: bake bread\n",
    "plans.md": "# Plans\n2026-12-24 Dinner with Ada\nsome day: a boat\n2026-12-31 Dance\n",
    "people.csv": "name,email\nAda,ada@example.test\nBo,bo@example.test\n",
    "letter.txt": "Dear [name] in [city],\nwe have moved.\n",
    "bread.md": "# Bread\n- 500 g flour\n- 1 l water\n",
    "cake.md": "# Cake\n- 200 g flour\n- 3 eggs\n",
    "links.md": "See https://example.org and https://example.org/nothing.\n",
    "photos/IMG_20260301_1.jpg": "",
    "photos/IMG_20251224_2.jpg": "",
    "downloads/bill.pdf": "",
    "downloads/what.xyz": "",
    "export/orders.csv": "id,total\n1,40.50\n",
    f"notes/{TODAY}.md": "Today was quiet.\n",
    f"notes/{TODAY - timedelta(days=400)}.md": "That was long ago.\n",
}

MEMORY = {
    "type": "entity",
    "name": "Ada",
    "entityType": "person",
    "observations": [f"birthday 1990-{TODAY:%m-%d}"],
}

COMMITS = [
    ("2025-01-05", "feat: a map"),
    ("2026-03-02", "fix: the map was upside down"),
    ("2026-03-03", "typo"),
]


def make(folder: Path) -> None:
    """Make the data in a folder; what is there of it already is replaced."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "memory.jsonl").write_text(json.dumps(MEMORY) + "\n", "utf-8")
    with closing(sqlite3.connect(folder / "office.db")) as database:
        for table, columns in TABLES.items():
            names = ", ".join(f'"{name}"' + " INTEGER PRIMARY KEY" * (name == "id") for name in columns)
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} ({names})")
            marks = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", ROWS.get(table, []))
        database.commit()
    repository = folder / "repo"
    if not repository.exists():
        repository.mkdir()
        git(repository, "init", "-q", "-b", "main")
        for day, message in COMMITS:
            git(repository, "commit", "-q", "--allow-empty", "-m", message, day=f"{day}T12:00:00Z")


def git(repository: Path, *arguments: str, day: str = "") -> None:
    """Run git in the sample repository, as Ada."""
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.test"]
    dates = {f"GIT_{role}_DATE": day for role in ("AUTHOR", "COMMITTER") if day}
    subprocess.run(["git", *who, *arguments], cwd=repository, env={**os.environ, **dates}, check=True)


if __name__ == "__main__":
    make(Path())
    print("The office is open: try  callsheet run expense-sums.ltp --mcp-config mcp.json --month 2026-03")
