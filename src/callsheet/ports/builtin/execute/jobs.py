"""The launcher's jobs: the program of a language, its limits, and the files of the workspace that it sees.

In: what a call declares, what the policy of its run grants, the settings. Out: the `Mounts` of its sandbox.
No link is followed, so nothing outside the workspace can be among them.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.policy.paths import PathRefused, alternatives, is_pattern, matches
from callsheet.policy.programs import READS, fixed_folder, normal_paths, undeclared_view
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import FileGrant, ToolFailed

_MOST_FILES = 1_000
"""A glob that matches more files, or a folder with more hidden ones, is refused."""
_MOST_SEARCHED = 200_000


class Mounts(NamedTuple):
    """What a program sees of the workspace.

    `shown` are files and folders relative to it; None stands for all of it, in a place of its own. `hidden`
    are the files among them that are covered.
    """

    shown: tuple[str, ...] | None = ()
    hidden: tuple[str, ...] = ()


def mounts_of(
    settings: BuiltinSettings, language: str, code: str, reads: Any, grant: FileGrant | None
) -> Mounts:
    """What a program sees; `reads` is what its call declares, None if it declares nothing.

    Raises ToolFailed for a declaration that is no list of paths inside the workspace, or that names a file
    that is not there.
    """
    declared = None if reads is None else _declared(reads)
    if declared is None and grant is not None:
        declared = grant.paths
    if declared is None:
        declared = undeclared_view(code, language).paths
    hides = None if grant is None else grant.hides
    root = str(settings.workspace.resolve())
    if declared is None:
        if settings.execution.workspace == "hidden":
            return Mounts()
        return Mounts(None, tuple(_hidden(root, [""], hides)))
    shown = sorted({name for path in declared for name in _expanded(root, path)})
    return Mounts(tuple(shown), tuple(_hidden(root, shown, hides)))


def _declared(reads: Any) -> tuple[str, ...]:
    entries = cast("list[Any]", reads) if isinstance(reads, list) else [reads]
    if not isinstance(reads, list) or not all(isinstance(entry, str) for entry in entries):
        raise ToolFailed(f'the argument {READS} must be a list of paths, such as ["data/in.csv", "src"]')
    try:
        return normal_paths(tuple(map(str, entries)))
    except PathRefused as error:
        raise ToolFailed(f"{READS} can name files of the workspace only: {error}") from None


def _expanded(root: str, path: str) -> Iterator[str]:
    """The files and folders that a declared path stands for."""
    if not path:
        yield from (name for name in os.listdir(root) if not os.path.islink(os.path.join(root, name)))
    elif is_pattern(path):
        yield from _matching(root, path)
    else:
        _check(root, path)
        yield path


def _check(root: str, path: str) -> None:
    """Raise ToolFailed unless there is a file or folder at a path that leads over no link."""
    place, mode = root, 0
    for part in path.split("/"):
        place = os.path.join(place, part)
        try:
            mode = os.lstat(place).st_mode
        except (OSError, ValueError):
            raise ToolFailed(f"{READS} names {path}, which is not in the workspace") from None
        if stat.S_ISLNK(mode):
            raise ToolFailed(f"{READS} names {path}, which leads over a symbolic link")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ToolFailed(f"{READS} names {path}, which is neither a file nor a folder")


def _matching(root: str, glob: str) -> Iterator[str]:
    globs = alternatives(glob)
    found = (name for name in _below(root, fixed_folder(glob)) if any(matches(one, name) for one in globs))
    for count, name in enumerate(found):
        if count >= _MOST_FILES:
            raise ToolFailed(f"{READS} names {glob}, which is more than {_MOST_FILES:,} files: name a folder")
        yield name


def _hidden(root: str, shown: Sequence[str], hides: Callable[[str], bool] | None) -> Iterator[str]:
    if hides is None:
        return
    files = (name for path in shown for name in _below(root, path))
    for count, name in enumerate(name for name in files if hides(name)):
        if count >= _MOST_FILES:
            raise ToolFailed(
                f"the policy hides more than {_MOST_FILES:,} of the files that the program would see:"
                f" name fewer in {READS}"
            )
        yield name


def _below(root: str, path: str) -> Iterator[str]:
    """The files at or below a path, relative to the root; links are left out."""
    place = os.path.join(root, path)
    if os.path.isfile(place):
        yield path
        return
    count = 0
    for folder, _, names in os.walk(place):
        for name in names:
            count += 1
            if count > _MOST_SEARCHED:
                raise ToolFailed(f"there are more than {_MOST_SEARCHED:,} files in {path or 'the workspace'}")
            full = os.path.join(folder, name)
            if not os.path.islink(full):
                yield os.path.relpath(full, root)


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
