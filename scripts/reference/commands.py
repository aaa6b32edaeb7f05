"""The page of commands: what `--help` of each says, with all its options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from scripts.reference.tables import code, plain, table

from callsheet.apps.cli.main import main

_HEAD = """# Commands and their options

What `callsheet COMMAND --help` prints. [The command line](../cli.md) describes what they have in common.

"""


def commands_page() -> str:
    """The page."""
    return _HEAD + "\n".join(_sections("callsheet", main))


def _sections(name: str, group: click.Group) -> Iterator[str]:
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        if command is None or command.hidden:
            continue
        full = f"{name} {each}"
        yield _section(full, command)
        if isinstance(command, click.Group):
            yield from _sections(full, command)


def _section(full: str, command: click.Command) -> str:
    text = inspect.cleandoc(command.help or command.short_help or "").partition("\f")[0]
    said = "\n\n".join(map(_paragraph, text.split("\n\n")))
    usage = " ".join([full, *command.collect_usage_pieces(click.Context(command))])
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    rows = [record for each in options if (record := each.get_help_record(click.Context(command)))]
    parts = [f"## {full.removeprefix('callsheet ')}\n", f"```text\n{usage}\n```\n", said + "\n"]
    if rows:
        parts.append(table(("option", ""), [(code(names), plain(text)) for names, text in rows]))
    return "\n".join(parts)


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if lines and lines[0].strip() == "\b":
        return "```text\n" + "\n".join(lines[1:]) + "\n```"
    return plain(" ".join(lines))
