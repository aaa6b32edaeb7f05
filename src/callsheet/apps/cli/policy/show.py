"""`callsheet policy show`: prints the text of a policy."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text


@click.command()
@click.argument("policy", metavar="POLICY")
@options.as_json
def show(policy: str, as_json: bool) -> int:
    """Print the text of POLICY: strict, workspace, open, or a file."""
    from callsheet.api.policies import load_policy, policy_source  # noqa: PLC0415 - not for --help

    load_policy(policy)
    source = policy_source(policy)
    if as_json:
        print_json({"policy": source.name, "text": source.text})
    else:
        print_text(source.text, nl=False)
    return Exit.OK
