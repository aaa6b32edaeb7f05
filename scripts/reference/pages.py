"""All generated pages, by file name."""

from __future__ import annotations

from scripts.reference.codes import code_pages
from scripts.reference.commands import commands_page
from scripts.reference.http import http_page
from scripts.reference.lctl import lctl_page
from scripts.reference.pure_code import pure_code_page
from scripts.reference.python import python_page
from scripts.reference.results import results_page
from scripts.reference.words import words_page


def pages() -> dict[str, str]:
    """The text of each page of docs/reference."""
    return {
        "commands.md": commands_page(),
        "http.md": http_page(),
        "lctl.md": lctl_page(),
        "words.md": words_page(),
        "pure-code.md": pure_code_page(),
        "python.md": python_page(),
        "results.md": results_page(),
        **code_pages(),
    }
