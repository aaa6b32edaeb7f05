"""`callsheet policy show`: the text of a policy, and of those it extends."""

from __future__ import annotations

import click

from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import print_text


@click.command()
@click.argument("policy", metavar="POLICY")
def show(policy: str) -> int:
    """Print the text of POLICY: strict, workspace, open, or a file."""
    from callsheet.api.policies import load_policy, policy_source  # noqa: PLC0415 - not for --help

    load_policy(policy)
    print_text(policy_source(policy).text, nl=False)
    return Exit.OK
