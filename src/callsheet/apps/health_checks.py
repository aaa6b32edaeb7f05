"""The checks of `callsheet doctor`: whether this machine has what callsheet needs.

In: a setup, the path of a journal. Out: a list of results, each with help if the check failed. Writes only a
temporary file to the folder of the journal.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from callsheet import __version__
from callsheet.api.requirements import login_file
from callsheet.apps.config_file import settings_path
from callsheet.apps.server_catalogue import select_servers
from callsheet.apps.settings import pin_keeper
from callsheet.apps.setup import Setup, default_local_model
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ports.builtin import isolation
from callsheet.ports.mcp import McpPool, McpServerConfig, discover, load_config
from callsheet.ports.mcp.declarations import pin_of
from callsheet.ports.mcp.trust import LockedServer, PinKeeper, SeenServer

State: TypeAlias = Literal["ok", "note", "bad"]

_PACKAGES = ("click", "mcp", "markdownify", "rich")
_BACKPORTS = {(3, 50): 7, (3, 44): 6}


class CheckResult(NamedTuple):
    """The result of one check; `bad` is a missing requirement, `note` a missing optional part."""

    name: str
    state: State
    detail: str
    help: str | None = None


async def run_checks(setup: Setup, journal: Path | None) -> list[CheckResult]:
    """Run all checks. Servers are started only if the setup names MCP configurations."""
    items = [_python(), *_packages(), _sqlite(), _journal(journal), _isolation(setup)]
    items += await asyncio.to_thread(_store)
    items += [_program("git"), _program("node"), _settings(), *_project(setup), _local_models()]
    items += await _model(setup)
    items += _configurations(setup)
    if setup.mcp_configs:
        items += await _servers(setup)
    return items


def _python() -> CheckResult:
    detail = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    return CheckResult("python", "ok", detail)


def _packages() -> Iterator[CheckResult]:
    installed: list[str] = [f"callsheet {__version__} ({_loop_kind()})"]
    missing: list[str] = []
    for name in _PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    yield CheckResult("packages", "ok", ", ".join(installed))
    if missing:
        yield CheckResult("packages", "bad", f"missing: {', '.join(missing)}", "install callsheet again")


def _loop_kind() -> str:
    """Whether the inner loop is compiled: tracebacks through machine code have no local variables."""
    file = getattr(find_spec("callsheet.machine.machine"), "origin", None) or ""
    return "Python" if file.endswith(".py") else "inner loop as machine code"


def _sqlite() -> CheckResult:
    installed_version = sqlite3.sqlite_version
    if has_wal_fix(sqlite3.sqlite_version_info):
        return CheckResult("sqlite", "ok", installed_version)
    message = "before 3.51.3, two concurrent writers could damage a journal (the WAL-reset race)"
    return CheckResult(
        "sqlite", "note", installed_version, f"{message}; callsheet's write lock prevents that"
    )


def has_wal_fix(number: tuple[int, int, int]) -> bool:
    """Whether this version of SQLite has the fix of the WAL-reset race: from 3.51.3, 3.50.7 or 3.44.6 on.

    >>> has_wal_fix((3, 51, 3)), has_wal_fix((3, 50, 7)), has_wal_fix((3, 45, 1))
    (True, True, False)
    """
    return number >= (3, 51, 3) or number[2] >= _BACKPORTS.get(number[:2], 1_000)


def _journal(given: Path | None) -> CheckResult:
    from callsheet.store.connections import connect_to_look  # noqa: PLC0415
    from callsheet.store.journal_paths import default_journal_path, place_of, refuse_network_file_system  # noqa: PLC0415

    path = given or default_journal_path()
    folder = next(p for p in (path.absolute().parent, *path.absolute().parents) if os.path.exists(p))
    try:
        refuse_network_file_system(path.absolute())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        is_there = os.path.exists(path)
        if is_there and os.path.getsize(path):
            connect_to_look(place_of(path)).close()
    except CallsheetError as error:
        return _result_of(error.diagnostics[0], "journal")
    except OSError as error:
        return CheckResult(
            "journal",
            "bad",
            f"{path}: {folder} cannot be written: {error.strerror}",
            "set CALLSHEET_JOURNAL to a file in a folder that you can write",
        )
    return CheckResult("journal", "ok", f"{path} ({'exists' if is_there else 'created by the first run'})")


def _store() -> list[CheckResult]:
    """The shared store, if one is configured."""
    from callsheet.store.shared.opening import (  # noqa: PLC0415 - few have one
        open_database,
        shared_address,
        shown,
    )

    try:
        address = shared_address()
        if address is None:
            return []
        exists = open_database(address).has_tables()
    except CallsheetError as error:
        return [_result_of(found, "store") for found in error.diagnostics]
    except OSError as error:
        hint = "start it, or remove CALLSHEET_STORE (or `store` in config.toml)"
        return [CheckResult("store", "bad", error.strerror or str(error), hint)]
    return [
        CheckResult("store", "ok", f"{shown(address)} ({'exists' if exists else 'created by the first use'})")
    ]


def _isolation(setup: Setup) -> CheckResult:
    sandbox = isolation(setup.builtin_settings())
    if sandbox.kind == "namespaces":
        return CheckResult("code", "ok", str(sandbox))
    return CheckResult("code", "note", str(sandbox), "`--allow-unsandboxed` allows code without isolation")


def _program(name: str) -> CheckResult:
    path = shutil.which(name)
    return (
        CheckResult(name, "ok", path)
        if path
        else CheckResult(name, "note", "not found; some MCP servers need it")
    )


def _settings() -> CheckResult:
    """The user's configuration file; an invalid one has ended the command before this check."""
    path = settings_path()
    return CheckResult(
        "config", "ok", str(path) if os.path.exists(path) else f"{path} (does not exist; the defaults apply)"
    )


async def _model(setup: Setup) -> list[CheckResult]:
    """The configured model: sends it a short request, and one with each constraint that it declares."""
    from callsheet.apps.equipment import is_function, model_of  # noqa: PLC0415 - brings the runtime
    from callsheet.ports.models.model import LanguageModel, ModelFailed, diagnose, identify, strength_of  # noqa: PLC0415 - as above
    from callsheet.ports.models.opening import try_model  # noqa: PLC0415 - as above

    try:
        model = model_of(setup)
    except CallsheetError as error:
        return [_result_of(d, "model") for d in error.diagnostics]
    if model is None:
        local = default_local_model()
        if local is not None:
            return [CheckResult("model", "ok", f"none is configured: {local} is used (not asked)")]
        help_text = "set `model` in [model] of config.toml, CALLSHEET_MODEL, or pass --model"
        return [
            CheckResult(
                "model", "note", "none is configured; only steps that use a model need one", help_text
            )
        ]
    if not isinstance(model, LanguageModel):
        assert is_function(setup.model)
        return [CheckResult("model", "ok", f"{setup.model} (a function, not asked)")]
    try:
        await identify(model)
        trial = await try_model(model)
    except ModelFailed as error:
        return [_result_of(diagnose(error), "model")]
    used = trial.answer.usage
    which = f" as {trial.answer.model}" if trial.answer.model not in ("", model.name) else ""
    tokens = f"{used.input_tokens:,} + {used.output_tokens:,} tokens"
    cost = "" if used.cost is None else f", cost {used.cost:.6g}"
    results = [
        CheckResult("model", "ok", f"{model.name} answered{which} in {used.seconds:.3g} s, {tokens}{cost}"),
        CheckResult("strength", "ok", f"it is taken for a {strength_of(model)} model"),
    ]
    constraints = (
        f"accepts {', '.join(trial.kept)}" if trial.kept else "accepts none: answers are checked afterwards"
    )
    results.append(CheckResult("constraints", "ok" if trial.kept else "note", constraints))
    results += [
        CheckResult("constraints", "note", f"{syntax} does not work: {reason}")
        for syntax, reason in trial.broken
    ]
    return results


def _local_models() -> CheckResult:
    """The local models; optional, and usable without an API key."""
    from callsheet.ports.models.local import detect  # noqa: PLC0415 - only where it is asked

    presence = detect()
    return CheckResult(
        "local models", "note" if presence.default is None else "ok", presence.found, presence.help
    )


def _project(setup: Setup) -> Iterator[CheckResult]:
    """The configuration of the project and its lock file; both are optional."""
    from callsheet.apps.projects import project_of  # noqa: PLC0415 - as above
    from callsheet.apps.server_catalogue import catalogue_of  # noqa: PLC0415 - only where it is asked
    from callsheet.apps.tool_trust import summary  # noqa: PLC0415 - as above

    try:
        project = project_of(Path.cwd())
        if project.file is not None:
            given = {f.name: getattr(project.settings, f.name) for f in fields(project.settings)}
            names = ", ".join(name for name, value in given.items() if value) or "nothing"
            trust = None if project.is_trusted else "read it, then `callsheet trust project`"
            state: State = "ok" if project.is_trusted else "note"
            said = (
                f"sets {names}" if project.is_trusted else "is not trusted as it is now, and does not count"
            )
            yield CheckResult("project", state, f"{project.file}: {said}", trust)
        catalogue = catalogue_of(setup)
    except CallsheetError as error:
        yield _result_of(error.diagnostics[0], "project")
        return
    if catalogue is not None:
        yield CheckResult("lock file", "ok", f"{setup.lock}: {summary(catalogue.lock)}")
        for diagnostic in catalogue.diagnostics:
            yield _result_of(diagnostic, "lock file")


def _configurations(setup: Setup) -> Iterator[CheckResult]:
    files = setup.mcp_configs or tuple(discover(setup.project))
    if not files:
        yield CheckResult("mcp config", "note", "none found")
    for path in files:
        try:
            file = load_config(path, skips=not setup.mcp_configs)
        except CallsheetError as error:
            yield _result_of(error.diagnostics[0], "mcp config", str(path))
        else:
            names = ", ".join(server.name for server in file.servers) or "no servers"
            untried = file.servers and not setup.mcp_configs
            note = "its servers are started only with --mcp-config, or if the project names it"
            yield CheckResult("mcp config", "ok", f"{path}: {names}", note if untried else None)
            for skipped in file.warnings:
                yield _result_of(skipped, "mcp config", str(path))


async def _servers(setup: Setup) -> list[CheckResult]:
    """Each server, started separately, so that each failure is reported by itself."""
    from callsheet.apps.server_catalogue import catalogue_of  # noqa: PLC0415 - only where servers are started

    try:
        configs = select_servers(setup, None).configs
        catalogue = catalogue_of(setup)
    except CallsheetError:
        return []  # reported by the check of the configuration
    locked: Mapping[str, LockedServer] = {} if catalogue is None else catalogue.lock.servers
    pins = pin_keeper(setup.settings, records=False)
    return [item for config in configs for item in await _server(config, pins, locked.get(config.name))]


async def _server(config: McpServerConfig, pins: PinKeeper, locked: LockedServer | None) -> list[CheckResult]:
    """What becomes of starting a server; the lock file takes precedence over what was seen at first use."""
    async with McpPool([config], pins=None if locked else pins, logins=login_file()) as pool:
        failures = await pool.connect(keep_going=True)
        items = [_result_of(d, "mcp server", config.name) for d in failures]
        if locked is not None:
            items += (row for seen in pool.seen() for row in _differences(config.name, locked, seen))
        for status in pool.status():
            protocol = f", protocol {status.protocol}" if status.protocol else ""
            items.append(CheckResult("mcp server", "ok", f"{status.name}: {status.tools} tools{protocol}"))
    return items


def _differences(name: str, locked: LockedServer, seen: SeenServer) -> Iterator[CheckResult]:
    before = {tool: pin_of(each.declaration) for tool, each in locked.tools.items()}
    now = {tool: pin_of(declaration) for tool, declaration in seen.declarations.items()}
    other = sorted(tool for tool in {*before, *now} if before.get(tool) != now.get(tool))
    if other:
        said = f"{name}: declared differently than in the lock file: {', '.join(other)}"
        yield CheckResult("mcp server", "note", said, f"`callsheet lock --refresh {name}` shows it in full")


def _result_of(diagnostic: Diagnostic, name: str, subject: str = "") -> CheckResult:
    state: State = "bad" if diagnostic.is_error else "note"
    detail = f"{subject}: {diagnostic.message}" if subject else diagnostic.message
    return CheckResult(name, state, f"{detail} ({diagnostic.code})", diagnostic.help)
