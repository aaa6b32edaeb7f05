"""All generated pages, by file name."""

from __future__ import annotations

from scripts.reference.codes import code_pages
from scripts.reference.pure_code import pure_code_page
from scripts.reference.python import python_page
from scripts.reference.results import results_page
from scripts.reference.words import words_page


def pages() -> dict[str, str]:
    """The text of each page of docs/reference."""
    return {
        "words.md": words_page(),
        "pure-code.md": pure_code_page(),
        "python.md": python_page(),
        "results.md": results_page(),
        **code_pages(),
    }
