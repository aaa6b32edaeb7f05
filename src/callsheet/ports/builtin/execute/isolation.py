"""Finds out, by trying it, which isolation the system offers for running code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from callsheet.ports.builtin.settings import BuiltinSettings


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of code that a plan runs.

    `kind` is `namespaces` for a sandbox of Linux namespaces, `limits` if there are only limits on time,
    memory and files: code then has the rights of the process that runs it. `reason` says why there is no
    sandbox; `usable` whether the settings allow code to run at all.
    """

    kind: Literal["namespaces", "limits"]
    network_blocked: bool
    files_hidden: bool
    processes_hidden: bool
    usable: bool
    reason: str | None = None

    def __str__(self) -> str:
        if self.kind == "namespaces":
            network = "no network" if self.network_blocked else "with network"
            return f"sandbox in namespaces: own file system, own processes, {network}"
        rest = "code runs with resource limits only" if self.usable else "code is refused"
        return f"no sandbox ({self.reason}): {rest}"


def isolation(settings: BuiltinSettings) -> Isolation:
    """Try the sandbox with an empty program and report what it provides; takes about a tenth of a second.

    May be called with or without a running event loop.
    """
    import asyncio  # noqa: PLC0415 - as below: what only a run needs is loaded by it
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(lambda: asyncio.run(_missing(settings))).result()
    if reason is None:
        return Isolation("namespaces", not settings.execution.network, True, True, True)
    return Isolation("limits", False, False, False, settings.execution.require == "best-effort", reason)


async def _missing(settings: BuiltinSettings) -> str | None:
    """Why there is no sandbox, or None if there is one."""
    import tempfile  # noqa: PLC0415

    from callsheet.ports.builtin.execute.jobs import find_program, sandbox_job  # noqa: PLC0415
    from callsheet.ports.builtin.execute.process import run_job  # noqa: PLC0415

    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces"
    with tempfile.TemporaryDirectory(prefix="callsheet-") as mountpoint:
        finished = await run_job(
            sandbox_job(find_program("python", ""), settings, mountpoint), "", 20.0, 1_000
        )
    if finished.failure is not None:
        return finished.failure
    return (
        None if finished.exit_code == 0 else f"a test program failed in it: {finished.stderr.strip()[:300]}"
    )
