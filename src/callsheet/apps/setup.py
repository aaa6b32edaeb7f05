"""The setup of a run: where its tools come from, which settings apply, which model is used.

In: the operator's choices. Out: a `Setup`, and its form in the journal of a run, from which the same tools
are opened again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.api.checking import Providers
from callsheet.apps.settings import Settings, read_settings
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.lazy import dataclass
from callsheet.ports.builtin import BuiltinSettings

if TYPE_CHECKING:
    from callsheet.api.requirements import AgentRules


LOCK_VARIABLE = "CALLSHEET_LOCK"
"""The environment variable with the path of the lock file; if it is empty, none is used."""
LOCK_NAME = "callsheet.lock"


def lock_path(folder: Path) -> Path | None:
    """The lock file of a project folder, which need not exist; None if the environment says to use none."""
    named = os.environ.get(LOCK_VARIABLE)
    if named is None:
        return folder / LOCK_NAME
    return Path(named).expanduser().absolute() if named else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where the tools of a run come from, and what they may do.

    `workspace` is the folder of the file tools, `data` that of memory and received files. `mcp_configs` are
    used instead of the files at the conventional places, which are read only if `discovers`. `settings` is
    the user's configuration.
    """

    workspace: Path
    data: Path
    tools_files: tuple[Path, ...] = ()
    mcp_configs: tuple[Path, ...] = ()
    discovers: bool = True
    is_lenient: bool = False
    """Whether a server that cannot be used is skipped with a warning also in the files of `mcp_configs`."""
    settings: Settings = field(default_factory=Settings)
    lock: Path | None = None
    """The lock file of the project, which need not exist; None if none is used."""
    project: Path | None = None
    """The folder of the project, where servers are configured; None for the working folder."""
    plans: tuple[str, ...] = ()
    """The plans of the project: absolute paths of files and folders, and patterns."""
    model: str = ""
    """The model to use instead of the configured one: `provider:model`, an address, `FILE.py:FUNCTION`."""

    @property
    def names_model(self) -> bool:
        """Whether a model is named or configured."""
        return bool(self.model) or self.settings.model.is_set

    @property
    def providers(self) -> Providers:
        """Whether plans have a model, agent and compiler; a downloaded model counts if none is named."""
        has_model = self.names_model or default_local_model() is not None
        return Providers(model=has_model, agent=has_model, compiler=has_model)

    @property
    def agents(self) -> AgentRules:
        """The operator's rules for agents."""
        from callsheet.api.requirements import AgentRules  # noqa: PLC0415 - only where plans are looked at

        return AgentRules(self.settings.agent_tools)

    @property
    def folder(self) -> str:
        """The folder of the file tools as an absolute path."""
        return os.path.abspath(self.workspace)

    def to_note(self) -> dict[str, JSON]:
        """The setup as JSON data with absolute paths, for a run's journal."""
        return {
            "workspace": self.folder,
            "data": os.path.abspath(self.data),
            "tools": [os.path.abspath(path) for path in self.tools_files],
            "mcp_configs": [os.path.abspath(path) for path in self.mcp_configs],
            "discovers": self.discovers,
            "settings": self.settings.to_json(),
            **({} if self.lock is None else {"lock": os.path.abspath(self.lock)}),
            **({"model": self.model} if self.model else {}),
        }

    @classmethod
    def from_note(cls, launch: Mapping[str, Any]) -> Setup:
        """The setup in the launch note of a run's first event; raises CallsheetError (CFG017) if missing."""
        try:
            note = launch["setup"]
            return cls(
                workspace=Path(note["workspace"]),
                data=Path(note["data"]),
                tools_files=tuple(map(Path, note["tools"])),
                mcp_configs=tuple(map(Path, note["mcp_configs"])),
                discovers=bool(note["discovers"]),
                settings=read_settings(note["settings"], "of the run"),
                lock=Path(note["lock"]) if "lock" in note else None,
                model=str(note.get("model", note.get("planner", ""))),
            )
        except (KeyError, TypeError) as error:
            raise CallsheetError.single(
                "CFG017",
                "the run does not record the tools that it was started with: no command of callsheet"
                " started it",
                help="resume it with the program that started it",
            ) from error

    def builtin_settings(self) -> BuiltinSettings:
        """The settings of the built-in tools."""
        return BuiltinSettings(
            workspace=self.workspace,
            data=self.data,
            fetch=self.settings.fetch,
            search=self.settings.search,
            execution=self.settings.execution,
        )


def default_local_model() -> str | None:
    """The local model that is used if none is named; None if none was downloaded."""
    from callsheet.ports.models.local import detect  # noqa: PLC0415 - only where none is named

    return detect().default
