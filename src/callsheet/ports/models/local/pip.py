"""Downloads one package with pip, using the user's pip configuration.

In: a requirement and a folder. Out: the wheel in that folder, or CallsheetError (MDL024, MDL026). The
package is not installed and none of its code runs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from callsheet.diagnostics import CallsheetError

_POLL = 0.2
_ARGUMENTS = (
    "download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-cache-dir",
    "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet",
)  # fmt: skip
_FULL = ("no space left", "errno 28", "disk quota")
_MOST_LINES = 5
Counted = Callable[[int], None]
"""Called with the number of bytes that have arrived so far."""


def download(requirement: str, folder: Path, counted: Counted) -> Path:
    """Downloads the wheel of a package into the empty folder `folder`; raises CallsheetError."""
    command = [*pip_command(requirement), *_ARGUMENTS, "--dest", str(folder), requirement]
    env = {**os.environ, "TMPDIR": str(folder)}  # keeps partial downloads in this folder
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while True:
                try:
                    process.wait(_POLL)
                    break
                except subprocess.TimeoutExpired:
                    counted(_size(folder))
        except BaseException:
            process.terminate()
            process.wait()
            raise
        output.seek(0)
        words = output.read().decode("utf-8", "replace")
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode or not wheels:
        raise _failed(requirement, words)
    return wheels[0]


def pip_command(requirement: str) -> list[str]:
    """The command of this interpreter's pip, else of one on the path; raises CallsheetError (MDL024)."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        path = shutil.which(name)
        if path:
            return [path]
    raise CallsheetError.single(
        "MDL024",
        f"the package {requirement} cannot be fetched: no pip is found",
        help=f"install pip, for example with `{Path(sys.executable).name} -m ensurepip`",
    )


def _failed(requirement: str, words: str) -> CallsheetError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if any(word in words.lower() for word in _FULL):
        return no_room(requirement, "the disk is full")
    why = " · ".join((errors or lines)[-_MOST_LINES:]) or "pip downloaded nothing"
    return CallsheetError.single(
        "MDL024",
        f"the package {requirement} could not be fetched: {why}",
        help=f"check that pip reaches its index: python -m pip download --no-deps {requirement}",
    )


def no_room(what: str, why: str) -> CallsheetError:
    """The error (MDL026) for something that cannot be written to the folder of models."""
    help_ = "free space, or name another folder in the environment variable CALLSHEET_MODELS"
    return CallsheetError.single("MDL026", f"{what} cannot be written: {why}", help=help_)


def _size(folder: Path) -> int:
    """The total size of the files in a folder; files that vanish meanwhile do not count."""
    total = 0
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(top, name)).st_size
            except OSError:
                continue
    return total
