"""Writes the generated pages to docs/reference."""

from __future__ import annotations

from pathlib import Path

from scripts.reference.pages import pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    """Write all pages, and remove pages that are no longer generated."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
