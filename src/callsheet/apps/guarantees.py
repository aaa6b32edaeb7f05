"""The guarantees of a run on which the proof of its plan may rely.

In: a setup, and the registry of its tools. Out: `Guarantees`, among them the files that determine what plans
may do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.apps.config_file import settings_path
from callsheet.apps.projects import NAME, trusted_file
from callsheet.apps.setup import LOCK_NAME, Setup
from callsheet.apps.tool_pins import pins_path
from callsheet.ports.tools import Registry

if TYPE_CHECKING:
    from callsheet.api.proving import Guarantees


def guarantees_of(setup: Setup, registry: Registry, *, keeps_labels: bool = True) -> Guarantees:
    """The guarantees of a run with this setup on which a proof may rely."""
    from callsheet.api.proving import Guarantees  # noqa: PLC0415 - only under a policy

    settings = setup.settings
    return Guarantees(
        registry,
        settings.fetch,
        settings.execution,
        keeps_labels=keeps_labels,
        workspace=setup.folder,
        files=policy_relevant_files(setup),
    )


def policy_relevant_files(setup: Setup) -> tuple[str, ...]:
    """The files that determine what plans may do here, other than policy files; they need not exist."""
    from callsheet.ports.mcp import looked_for  # noqa: PLC0415 - only under a policy

    folders = (setup.workspace, *([] if setup.project is None else [setup.project]))
    found = (file for folder in folders for file in looked_for(folder))
    named = (*setup.tools_files, *setup.mcp_configs, *found)
    own = (settings_path(), pins_path(setup.settings), trusted_file(), *_project_files(setup))
    return tuple(dict.fromkeys(os.path.abspath(path) for path in (*named, *own)))


def _project_files(setup: Setup) -> tuple[Path, ...]:
    """The files that configure the project, here and in the workspace; they need not exist."""
    folders = (setup.workspace, *([] if setup.project is None else [setup.project]))
    names = (NAME, LOCK_NAME)
    own = () if setup.lock is None else (setup.lock,)
    return (*own, *(folder / name for folder in folders for name in names))
