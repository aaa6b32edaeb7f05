"""`callsheet policy init`: writes a commented policy for the available tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError, to_json

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.apps.toolbox import Toolbox


@click.command()
@options.checked_tools
@click.option(
    "--base",
    type=click.Choice(["strict", "workspace", "open"]),
    default="workspace",
    show_default=True,
    help="The built-in policy to extend.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("policy.toml"),
    show_default=True,
    metavar="FILE",
    help="The file to write; - is standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@options.as_json
def init(setup: Setup, base: str, output: Path, force: bool, as_json: bool) -> int:
    """Write a policy with the strictest possible entry for each available tool.

    All configured servers are started to list their tools; the exit status is 1 if one could not be started.

    \b
    Example:
      callsheet policy init --mcp-config mcp.json -o policy.toml
    """
    from callsheet.api.policy_entries import draft_policy  # noqa: PLC0415 - not for --help
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above

    to_screen = str(output) == "-"
    if not to_screen and os.path.exists(output) and not force:
        raise CallsheetError.single(
            "CFG014", f"{output} already exists", help="name another file with -o, or add --force"
        )
    toolbox = run_async(_open_tools(setup))
    specs = {name: tool.spec for name, tool in zip(toolbox.registry.names(), toolbox.registry, strict=True)}
    text = draft_policy(specs, base, "policy.toml" if to_screen else output.name)
    tools = text.count("\n[tools.")
    if not to_screen:
        _write(output, text, force=force)
    if as_json:
        written = {"text": text} if to_screen else {"file": str(output)}
        print_json(
            {
                **written,
                "base": base,
                "tools": tools,
                "diagnostics": to_json(toolbox.diagnostics, None),
            }
        )
    elif to_screen:
        print_text(text, nl=False)
    else:
        to_stderr(f"wrote {output}: extends {base}, {tools} tool{'s' if tools != 1 else ''} to review")
    print_diagnostics(() if as_json else toolbox.diagnostics, None)
    return Exit.FAILED if any(d.is_error for d in toolbox.diagnostics) else Exit.OK


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CallsheetError.single(
            "CFG014", f"{path} cannot be written: {reason}", help="name a file that can be written: -o FILE"
        ) from None


async def _open_tools(setup: Setup) -> Toolbox:
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - imports the tools

    async with open_toolbox(setup) as toolbox:
        return toolbox
