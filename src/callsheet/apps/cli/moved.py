"""`--tools`, `--mcp-config`, `--workspace` of commands that continue a run: where its tools are now.

In: the setup in the start of a run. Out: the same setup with the places that were named instead, and these
places as the journal of the run records them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.ir import JSON
    from callsheet.store.start import Start

_PATH = click.Path(path_type=Path)
_MISSING = {"CFG100": "--tools FILE.py", "CFG110": "--mcp-config FILE"}


@dataclass(frozen=True, slots=True)
class Moved:
    """The places of a run's tools that differ from those of its start; empty where they are the same."""

    tools_files: tuple[Path, ...]
    mcp_configs: tuple[Path, ...]
    workspace: Path | None

    @property
    def is_any(self) -> bool:
        """Whether a place was named."""
        return bool(self.tools_files or self.mcp_configs or self.workspace is not None)

    def to_note(self) -> dict[str, JSON]:
        """The named places as absolute paths, as a run's journal records them."""
        return {
            **({"tools": [os.path.abspath(path) for path in self.tools_files]} if self.tools_files else {}),
            **({"mcp_configs": [os.path.abspath(p) for p in self.mcp_configs]} if self.mcp_configs else {}),
            **({} if self.workspace is None else {"workspace": os.path.abspath(self.workspace)}),
        }

    def setup(self, start: Start) -> Setup:
        """The setup of the start, with these places.

        Raises click.UsageError for another workspace of a run under a policy: the labels of its files are
        kept by their paths. Raises CallsheetError (CFG017) for a start without a setup.
        """
        from callsheet.apps.setup import Setup  # noqa: PLC0415 - brings the tools

        if self.workspace is not None and start.policy is not None:
            raise click.UsageError(
                "a run under a policy keeps its workspace, as the labels of its files belong to their paths:"
                " leave --workspace out"
            )
        return Setup.from_note(start.at_places(self.to_note()).launch)


def with_hint(error: CallsheetError) -> CallsheetError:
    """The error, with the option that names the new place of a file of the start that is missing."""
    if not any(d.code in _MISSING for d in error.diagnostics):
        return error
    return CallsheetError(
        [
            replace(d, help=f"if it was moved, name it: {_MISSING[d.code]}") if d.code in _MISSING else d
            for d in error.diagnostics
        ]
    )


moved = options.grouped(
    "moved",
    Moved,
    tools_files=click.option(
        "--tools",
        "tools_files",
        multiple=True,
        type=_PATH,
        metavar="FILE.py",
        help="The Python files of tools, if they were moved; may be repeated. Default: the original ones.",
    ),
    mcp_configs=click.option(
        "--mcp-config",
        "mcp_configs",
        multiple=True,
        type=_PATH,
        metavar="FILE",
        help="The MCP configuration, if it was moved; may be repeated. Default: the original one.",
    ),
    workspace=click.option(
        "--workspace",
        type=_PATH,
        metavar="DIR",
        help="The folder of the file tools, if it was moved. Default: the original one.",
    ),
)
"""The options as one argument `moved`."""
