"""`callsheet people`: the file of those who may use `callsheet serve` under their own names."""

from __future__ import annotations

from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import print_json, print_text, to_stderr, writing

_BEGINNING = """\
# The people of `callsheet serve --people FILE`. What a role may do: start, answer, cancel, administer.
[roles]
operator = ["start", "answer", "cancel"]
approver = ["answer"]
admin = ["administer"]
"""


@click.group()
def people() -> None:
    """Manage who may use a server: people with names, tokens, roles and rights.

    `callsheet serve --people FILE` knows those in FILE by their tokens, of which it has hashes only. What
    they do is recorded under their names.

    \b
    Example:
      callsheet people add people.toml ada --role approver
      callsheet serve --people people.toml
    """


@people.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, required=True, metavar="ROLE", help="A role of FILE; may be repeated."
)
@options.as_json
def add(file: Path, name: str, roles: tuple[str, ...], as_json: bool) -> None:
    """Add NAME to FILE, with a new token, which is printed once.

    A FILE that does not exist is begun with the roles operator, approver and admin.
    """
    import json  # noqa: PLC0415 - not for --help

    from callsheet.apps.http.clients import new_token  # noqa: PLC0415 - imports the server
    from callsheet.apps.http.people import PeopleFile, hash_of_token, is_person_name, read_people  # noqa: PLC0415
    from callsheet.apps.settings import read_tables  # noqa: PLC0415 - as above
    from callsheet.diagnostics import Source  # noqa: PLC0415 - as above
    from callsheet.files import replace_file  # noqa: PLC0415 - as above

    if not is_person_name(name):
        raise click.UsageError(f"{name!r} is no name: use printable characters, at most 60, not `operator`")
    text = file.read_text(encoding="utf-8") if file.exists() else _BEGINNING
    known = read_people(file) if file.exists() else read_tables(PeopleFile, Source(str(file), text))
    if name in known.people:
        raise click.UsageError(f"{name} is in {file} already; remove the table to give another token")
    unknown = next((role for role in roles if role not in known.roles), None)
    if unknown is not None:
        listed = ", ".join(known.roles) or "none"
        raise click.UsageError(f"{file} has no role {unknown!r}; [roles] of it has {listed}")
    token = new_token()
    table = f"[people.{json.dumps(name, ensure_ascii=False)}]"
    listed = json.dumps(list(roles), ensure_ascii=False)
    text = f'{text.rstrip()}\n\n{table}\nroles = {listed}\ntoken = "{hash_of_token(token)}"\n'
    read_tables(PeopleFile, Source(str(file), text))
    with writing(file, "nothing of it was changed"):
        replace_file(file, text.encode())
    if as_json:
        print_json({"name": name, "roles": list(roles), "token": token})
        return
    print_text(token)
    to_stderr(f"the token of {name}, shown once; {file} has its hash")


@people.command("list")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@options.as_json
def list_people(file: Path, as_json: bool) -> None:
    """List the people in FILE, with their roles and what these may do."""
    from callsheet.apps.http.people import Right, read_people  # noqa: PLC0415 - imports the server

    known = read_people(file)
    found = [person for name in known.people if (person := known.person(name)) is not None]
    rows = [
        {
            "name": person.name,
            "roles": sorted(person.roles),
            "rights": [str(right) for right in Right if person.may(right)],
        }
        for person in found
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        may = ", ".join(row["rights"]) or "read only"
        print_text(f"{row['name']}: {', '.join(row['roles'])} ({may})")
