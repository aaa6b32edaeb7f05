"""The search index of the built site, so that what people wrote comes before what was generated.

In: `search.json` of a site. Out: the same file. In the generated pages an entry for each member of a class,
each subcommand and the words of each code match a word in their titles, and push the pages aside that explain
it. So a member is found by its class, a subcommand by its command, and a code by its letters and its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_CODE = re.compile(r"([A-Z]{3}\d{3}): (.*)")
_INDEX = Path(__file__).parents[2] / "build" / "site" / "search.json"
_CLASS = 3
"""The level of the headings of classes and functions; those of members are deeper."""


def weigh(index: Path) -> None:
    """Rewrite the search index of a site."""
    known: dict[str, Any] = json.loads(index.read_text("utf-8"))
    index.write_text(json.dumps({**known, "items": weighed(known["items"])}, ensure_ascii=False), "utf-8")


def weighed(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of an index, those of generated pages folded."""
    kept: list[dict[str, Any]] = []
    for item in items:
        page, title = item["location"].partition("#")[0], item["title"]
        if not page.startswith("reference/"):
            kept.append(item)
        elif kept and kept[-1]["location"].startswith(page) and _is_part(item, kept[-1], page):
            kept[-1] = {**kept[-1], "text": f"{kept[-1]['text']}<p>{title}</p>{item['text']}"}
        elif code := _CODE.fullmatch(title):
            kept.append({**item, "title": code[1], "text": f"<p>{code[2]}</p>{item['text']}"})
        else:
            kept.append(item)
    return kept


def _is_part(item: dict[str, Any], before: dict[str, Any], page: str) -> bool:
    if page.endswith("python.html"):
        return bool(item["level"] > _CLASS)
    return page.endswith("commands.html") and item["title"].startswith(f"{before['title']} ")


if __name__ == "__main__":
    weigh(_INDEX)
