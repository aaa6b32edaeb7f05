"""`callsheet doctor`: checks that everything callsheet needs is installed and working."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json

if TYPE_CHECKING:
    from callsheet.apps.health_checks import CheckResult

_MARKS = {"ok": "✓", "note": "·", "bad": "✗"}


@click.command()
@options.mcp_configs
@options.model
@journals.journal_path
@options.as_json
def doctor(mcp_configs: tuple[Path, ...], model: str, journal: Path | None, as_json: bool) -> int:
    """Check the installation; the exit status is 1 if something is broken.

    MCP servers are started only if --mcp-config is given. A configured model is sent a short request.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.health_checks import run_checks  # noqa: PLC0415 - imports the whole program

    items = run_async(run_checks(options.setup_from(mcp_configs=mcp_configs, model=model), journal))
    broken = any(item.state == "bad" for item in items)
    if as_json:
        print_json({"ok": not broken, "items": [_json(item) for item in items]})
    else:
        for item in items:
            _print(item)
    return Exit.FAILED if broken else Exit.OK


def _print(item: CheckResult) -> None:
    click.echo(f"{_MARKS[item.state]} {item.name:<14} {item.detail}")
    if item.help:
        click.echo(f"  {'':<14} {item.help}")


def _json(item: CheckResult) -> dict[str, Any]:
    return {"name": item.name, "state": item.state, "found": item.detail, "help": item.help}
