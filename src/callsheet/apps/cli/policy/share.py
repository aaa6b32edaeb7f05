"""`callsheet policy share`: stores a policy in the store that several machines share."""

from __future__ import annotations

from pathlib import PurePath

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, to_stderr


@click.command()
@click.argument("policy", metavar="POLICY")
@click.option("--as", "name", metavar="NAME", help="The name in the store; default: the name of the file.")
@options.as_json
def share(policy: str, name: str | None, as_json: bool) -> int:
    """Store POLICY, a file, in the shared store ($CALLSHEET_STORE), for use as `--policy store:NAME`.

    The policy is checked first. It may extend only a built-in policy or one of the store. Running runs keep
    the policy that they were started with.
    """
    from callsheet.api.policies import (  # noqa: PLC0415 - not for --help
        SHARED,
        load_shared,
        policy_source,
        share_policy,
    )

    source = policy_source(policy)
    load_shared(source)
    store_name = name or PurePath(source.name).stem
    place = share_policy(store_name, source.text)
    address = f"{SHARED}{store_name.removeprefix(SHARED)}"
    if as_json:
        print_json({"policy": address, "place": str(place)})
    else:
        click.echo(address)
        to_stderr(f"saved in {place}")
    return Exit.OK
