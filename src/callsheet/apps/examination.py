"""Checks everything that callsheet needs on this machine, item by item; for `callsheet doctor`.

In: a setup and a journal's place. Out: items, each with what was found and, where it is not in
order, the way out. It changes nothing but a probe file in the journal's folder, which it removes.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from callsheet import __version__
from callsheet.api.logins import login_file
from callsheet.apps.config_file import settings_path
from callsheet.apps.session import Setup, choose_servers, fetched_model, pin_keeper
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ports.builtin import isolation
from callsheet.ports.mcp import McpPool, McpServerConfig, discover, load_config
from callsheet.ports.mcp.trust import PinKeeper

State: TypeAlias = Literal["ok", "note", "bad"]

_PACKAGES = ("click", "mcp", "markdownify", "platformdirs", "rich")
_BACKPORTS = {(3, 50): 7, (3, 44): 6}


class Item(NamedTuple):
    """One thing that was looked at: `bad` is what callsheet cannot do without."""

    name: str
    state: State
    found: str
    help: str | None = None


async def examine(setup: Setup, journal: Path | None) -> list[Item]:
    """Every item. Servers are started only where the setup names configurations."""
    items = [_python(), *_packages(), _sqlite(), _journal(journal), _isolation(setup)]
    items += await asyncio.to_thread(_store)
    items += [_program("git"), _program("node"), _settings(), _local_models()]
    items += await _model(setup)
    items += _configurations(setup)
    if setup.mcp_configs:
        items += await _servers(setup)
    return items


def _python() -> Item:
    found = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    return Item("python", "ok", found)


def _packages() -> Iterator[Item]:
    found: list[str] = [f"callsheet {__version__} ({_form()})"]
    missing: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    yield Item("packages", "ok", ", ".join(found))
    if missing:
        yield Item("packages", "bad", f"missing: {', '.join(missing)}", "install callsheet again")


def _form() -> str:
    """What the inner loop is here: a traceback through machine code has lines, and no local variables."""
    file = getattr(find_spec("callsheet.machine.machine"), "origin", None) or ""
    return "Python" if file.endswith(".py") else "inner loop as machine code"


def _sqlite() -> Item:
    found = sqlite3.sqlite_version
    if has_wal_fix(sqlite3.sqlite_version_info):
        return Item("sqlite", "ok", found)
    message = "before 3.51.3 two processes that write at once could damage a journal (the WAL-reset race)"
    return Item("sqlite", "note", found, f"{message}; callsheet's own write lock keeps them apart")


def has_wal_fix(number: tuple[int, int, int]) -> bool:
    """Whether this SQLite is free of the WAL-reset race: 3.51.3, 3.50.7, 3.44.6 and what follows them.

    >>> has_wal_fix((3, 51, 3)), has_wal_fix((3, 50, 7)), has_wal_fix((3, 45, 1))
    (True, True, False)
    """
    return number >= (3, 51, 3) or number[2] >= _BACKPORTS.get(number[:2], 1_000)


def _journal(given: Path | None) -> Item:
    from callsheet.store.journal_paths import default_journal_path, refuse_network_file_system  # noqa: PLC0415

    path = given or default_journal_path()
    folder = next(p for p in (path.absolute().parent, *path.absolute().parents) if os.path.exists(p))
    try:
        refuse_network_file_system(path.absolute())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except CallsheetError as error:
        return _of(error.diagnostics[0], "journal")
    except OSError as error:
        return Item(
            "journal",
            "bad",
            f"{path}: {folder} cannot be written: {error.strerror}",
            "set CALLSHEET_JOURNAL to a file in a folder that you can write",
        )
    return Item("journal", "ok", f"{path} ({'there' if os.path.exists(path) else 'made with the first run'})")


def _store() -> list[Item]:
    """The store that this machine shares, where it has one."""
    from callsheet.store.shared.address import shared_address, shown  # noqa: PLC0415 - few have one
    from callsheet.store.shared.opening import open_database  # noqa: PLC0415 - as above

    try:
        address = shared_address()
        if address is None:
            return []
        there = open_database(address).has_tables()
    except CallsheetError as error:
        return [_of(found, "store") for found in error.diagnostics]
    except OSError as error:
        way_out = "start it, or take CALLSHEET_STORE (or `store` in config.toml) away"
        return [Item("store", "bad", error.strerror or str(error), way_out)]
    return [Item("store", "ok", f"{shown(address)} ({'there' if there else 'made with its first use'})")]


def _isolation(setup: Setup) -> Item:
    found = isolation(setup.builtin_settings())
    if found.kind == "namespaces":
        return Item("code", "ok", str(found))
    return Item("code", "note", str(found), "`--allow-unsandboxed` lets code run all the same")


def _program(name: str) -> Item:
    path = shutil.which(name)
    return Item(name, "ok", path) if path else Item(name, "note", "not found; some MCP servers need it")


def _settings() -> Item:
    """The user's configuration file; one that is wrong ends the command before it comes to this."""
    path = settings_path()
    return Item(
        "config", "ok", str(path) if os.path.exists(path) else f"{path} (not there, nothing is changed)"
    )


async def _model(setup: Setup) -> list[Item]:
    """The model that is configured, asked for a few words, and under each constraint that it says to take."""
    from callsheet.apps.models import is_function, model_of  # noqa: PLC0415 - brings the runtime
    from callsheet.ports.models.failures import diagnose  # noqa: PLC0415 - as above
    from callsheet.ports.models.model import LanguageModel, ModelFailed  # noqa: PLC0415 - as above
    from callsheet.ports.models.self_test import try_model  # noqa: PLC0415 - as above

    try:
        model = model_of(setup)
    except CallsheetError as error:
        return [_of(d, "model") for d in error.diagnostics]
    if model is None:
        local = fetched_model()
        if local is not None:
            return [Item("model", "ok", f"none is configured: {local} is taken (not asked)")]
        help_text = "set `model` in [model] of config.toml, CALLSHEET_MODEL, or pass --model"
        return [Item("model", "note", "none is configured; only steps that ask one need it", help_text)]
    if not isinstance(model, LanguageModel):
        assert is_function(setup.model)
        return [Item("model", "ok", f"{setup.model} (a function, not asked)")]
    try:
        trial = await try_model(model)
    except ModelFailed as error:
        return [_of(diagnose(error), "model")]
    used = trial.answer.usage
    which = f" as {trial.answer.model}" if trial.answer.model not in ("", model.name) else ""
    tokens = f"{used.input_tokens:,} + {used.output_tokens:,} tokens"
    cost = "" if used.cost is None else f", cost {used.cost:.6g}"
    found = [Item("model", "ok", f"{model.name} answered{which} in {used.seconds:.3g} s, {tokens}{cost}")]
    taken = f"takes {', '.join(trial.kept)}" if trial.kept else "takes none: answers are checked afterwards"
    found.append(Item("constraints", "ok" if trial.kept else "note", taken))
    found += [Item("constraints", "note", f"{syntax} does not work: {why}") for syntax, why in trial.broken]
    return found


def _local_models() -> Item:
    """The models that run on this machine: none is needed, and one that is there is usable without a key."""
    from callsheet.ports.models.local import detect  # noqa: PLC0415 - only where it is asked

    presence = detect()
    return Item("local models", "note" if presence.default is None else "ok", presence.found, presence.help)


def _configurations(setup: Setup) -> Iterator[Item]:
    files = setup.mcp_configs or tuple(discover())
    if not files:
        yield Item("mcp config", "note", "none found")
    for path in files:
        try:
            names = [server.name for server in load_config(path).servers]
        except CallsheetError as error:
            yield _of(error.diagnostics[0], "mcp config", str(path))
        else:
            yield Item("mcp config", "ok", f"{path}: {', '.join(names) or 'no servers'}")


async def _servers(setup: Setup) -> list[Item]:
    """Each server, started alone, so that one that fails says so for itself."""
    try:
        configs = choose_servers(setup, None).configs
    except CallsheetError:
        return []  # the configuration's own item says why
    pins = pin_keeper(setup.settings, records=False)
    return [item for config in configs for item in await _server(config, pins)]


async def _server(config: McpServerConfig, pins: PinKeeper) -> list[Item]:
    async with McpPool([config], pins=pins, logins=login_file()) as pool:
        failures = await pool.connect(keep_going=True)
        items = [_of(d, "mcp server", config.name) for d in failures]
        for status in pool.status():
            protocol = f", protocol {status.protocol}" if status.protocol else ""
            items.append(Item("mcp server", "ok", f"{status.name}: {status.tools} tools{protocol}"))
    return items


def _of(diagnostic: Diagnostic, name: str, subject: str = "") -> Item:
    state: State = "bad" if diagnostic.is_error else "note"
    found = f"{subject}: {diagnostic.message}" if subject else diagnostic.message
    return Item(name, state, f"{found} ({diagnostic.code})", diagnostic.help)
