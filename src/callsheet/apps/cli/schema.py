"""`callsheet schema`: the JSON Schema of JSON plans, for editors and models."""

from __future__ import annotations

import click

from callsheet.apps.cli.output import print_json


@click.command()
@click.argument("name", type=click.Choice(["dag"]), default="dag")
def schema(name: str) -> None:
    """Print the JSON Schema of JSON plans (dag), the same as docs/dag.schema.json."""
    from callsheet.frontends.dag import json_schema  # noqa: PLC0415 - not for --help

    print_json(json_schema())
