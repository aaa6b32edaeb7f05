"""Commands that the documentation names exist, with the options that it gives them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from callsheet.apps.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
INLINE = re.compile(r"`(callsheet [^`]+)`")
CONSOLE = re.compile(r"^(?:\$ |    (?:\$ )?)(callsheet .+)$", re.MULTILINE)
INPUTS = {"run", "dry-run"}  # their plans' inputs are options, too


def commands_of(text: str) -> list[str]:
    """The commands in a page's code spans and console blocks, each without what a pipe or `;` appends."""
    found = [" ".join(one.split()) for one in INLINE.findall(text)] + CONSOLE.findall(text)
    return [re.split(r"\s[|;&<>#]|\s·\s|\s{2,}", command)[0] for command in found]


def unknown_in(command: str) -> str:
    """What of a command the program does not know; empty if it knows all."""
    try:
        words = shlex.split(command.replace("…", ""))[1:]
    except ValueError:  # a command that goes on in the next line
        words = command.split()[1:]
    at: click.Command = main
    names: list[str] = []
    while words and isinstance(at, click.Group) and not words[0].startswith(("-", "[")):
        context = click.Context(at)
        choices = words.pop(0).split("|")
        if choices[0].isupper():  # COMMAND stands for any
            return ""
        names.append(choices[0])
        for choice in choices:
            if at.get_command(context, choice) is None:
                return f"command {choice}"
        found = at.get_command(context, choices[0])
        assert found is not None
        at = found
    known = {"--help", "-h"} | {name for each in at.params for name in (*each.opts, *each.secondary_opts)}
    options = [
        re.split(r"[=\]\[|]", word.lstrip("["))[0] for word in words if word.lstrip("[").startswith("-")
    ]
    foreign = [option for option in options if option not in known and not re.fullmatch(r"-\d+|--?", option)]
    if names and names[0] in INPUTS:
        foreign = []
    return f"{' '.join(names)} {foreign[0]}" if foreign else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_page_exist(page: Path) -> None:
    commands = commands_of(page.read_text("utf-8"))
    wrong = {command: unknown for command in commands if (unknown := unknown_in(command))}
    assert wrong == {}


def test_unknown_commands_and_options_are_found() -> None:
    assert unknown_in("callsheet chekc plan.ltp") == "command chekc"
    assert unknown_in("callsheet policy inti") == "command inti"
    assert unknown_in("callsheet verify plan.ltp --polcy p") == "verify --polcy"
    assert unknown_in("callsheet verify plan.ltp --policy=p") == ""
    assert commands_of("`callsheet a --b`\n\n    $ callsheet c | head\n") == [
        "callsheet a --b",
        "callsheet c",
    ]
