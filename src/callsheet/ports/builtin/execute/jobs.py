"""Builds the launcher's jobs: the program of a language, its limits, and the files it may see."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.ports.builtin.execute.mounts import Mounts
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import ToolFailed

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/mime.types",
)
_NETWORK = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/run/systemd/resolve",
)
LANGUAGES = {"python": "main.py", "shell": "main.sh", "javascript": "main.mjs"}
"""The languages by name, with the name of the file that holds their code."""
_ALIASES = {
    "py": "python",
    "python3": "python",
    "sh": "shell",
    "bash": "shell",
    "js": "javascript",
    "node": "javascript",
}


_NO_FILES = Mounts()


@dataclass(frozen=True, slots=True)
class Program:
    """Code in a language that can be run here; `command` starts it, without the file argument."""

    language: str
    command: tuple[str, ...]
    code: str

    @property
    def file(self) -> str:
        """The name of the file that the code is put into."""
        return LANGUAGES[self.language]


def find_program(language: str, code: str) -> Program:
    """The program for a piece of code; raises ToolFailed if the language is unknown or not installed."""
    name = language.strip().lower()
    name = _ALIASES.get(name, name)
    if name == "python":
        return Program(name, (sys.executable, "-s", "-P", "-B"), code)
    if name == "shell":
        return Program(name, (shutil.which("bash") or "/bin/sh",), code)
    if name == "javascript":
        node = shutil.which("node")
        if node is None:
            raise ToolFailed("javascript needs Node.js, which is not installed here")
        return Program(name, (os.path.realpath(node),), code)
    raise ToolFailed(f"unknown language {language!r}; available: {', '.join(LANGUAGES)}")


def sandbox_job(
    program: Program, settings: BuiltinSettings, mountpoint: str, mounts: Mounts = _NO_FILES
) -> dict[str, Any]:
    """The job of a program in the sandbox; `mountpoint` is an empty folder on which its root is mounted.

    Files that are declared appear in the scratch folder, where the program runs, so that what it writes
    beside them is gone afterwards; the workspace as a whole is a folder of its own, which is read-only.
    """
    execution = settings.execution
    workspace = str(settings.workspace.resolve())
    is_whole = mounts.shown is None
    show = [*_SYSTEM, *_python_paths(), *(_NETWORK if execution.network else ())]
    command = Path(program.command[0])
    if program.language == "javascript" and not command.is_relative_to("/usr"):
        show.append(str(command.parent.parent))
    if settings.packages.is_dir():
        show.append(str(settings.packages.resolve()))
    job = _job(program, settings, "/scratch", "/workspace" if is_whole else "/scratch")
    if mounts.shown:
        job["argv"][-1] = f"/program/{program.file}"  # a declared file may have the name of the program's
    job["sandbox"] = {
        "mountpoint": mountpoint,
        "show": show,
        "workspace": workspace if is_whole else None,
        "shown": [[os.path.join(workspace, path), path] for path in mounts.shown or ()],
        "hidden": list(mounts.hidden),
        "network": execution.network,
        "scratch_bytes": execution.scratch_bytes,
    }
    return job


def limited_job(
    program: Program, settings: BuiltinSettings, scratch: str, mounts: Mounts = _NO_FILES
) -> dict[str, Any]:
    """The job of a program without a sandbox; writes its code into the folder `scratch`.

    A program that reads files runs in the workspace, whose other files cannot be hidden from it.
    """
    path = os.path.join(scratch, program.file)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(program.code)
    shown = mounts.shown is None or bool(mounts.shown)
    job = _job(program, settings, scratch, str(settings.workspace.resolve()) if shown else scratch)
    job["sandbox"] = None
    return job


def _job(program: Program, settings: BuiltinSettings, scratch: str, cwd: str) -> dict[str, Any]:
    limits = settings.execution
    environment = {
        "HOME": scratch,
        "TMPDIR": scratch,
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8",
        "OPENBLAS_NUM_THREADS": "4",
        "OMP_NUM_THREADS": "4",
    }
    if settings.packages.is_dir():
        environment["PYTHONPATH"] = str(settings.packages.resolve())
    return {
        "argv": [*program.command, os.path.join(scratch, program.file)],
        "file": program.file,
        "code": program.code,
        "cwd": cwd,
        "environment": environment,
        "limits": {
            "cpu_seconds": limits.cpu_seconds,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "open_files": limits.open_files,
            "processes": limits.processes,
        },
    }


def _python_paths() -> list[str]:
    """The paths that the running interpreter needs: its folders, and the links that lead to it."""
    folders = {sys.prefix, sys.base_prefix, os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)}
    paths = sorted(folder for folder in folders if folder != "/")
    link = sys.executable
    for _ in range(16):
        if not any(Path(link).is_relative_to(folder) for folder in paths):
            paths.append(link)
        if not os.path.islink(link):
            break
        link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    return paths
