"""The files of the plans in a library: one per plan, named by its id, with a suffix for its syntax.

In: ids, texts. Out: file names and texts; CallsheetError (PLN004) for files that cannot be used. Other files
beside the plans are ignored.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.files import replace_file, sync_folder
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.store.library.params import Param
from callsheet.store.library.record import StoredPlan, VersionRecord, broken, check_plan_id, layed_out

_MOST_BYTES = 100_000_000


class Files(Protocol):
    """The storage of a library. Every method raises OSError if it cannot be reached."""

    @property
    def address(self) -> str:
        """The location for messages: a folder, or the address of a store."""
        ...

    def place(self, name: str) -> str:
        """The location of a file for messages."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The sorted names of the files in a folder; empty if there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises FileNotFoundError if there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; it is durable when this returns."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Delete all files of a folder."""
        ...

    def move(self, old: str, new: str) -> None:
        """Rename a file, replacing any file with the new name."""
        ...

    def move_folder(self, old: str, new: str) -> None:
        """Move all files of a folder to another one that has none; does nothing if there are none."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """A lock that excludes other writers."""
        ...

    def steady(self) -> AbstractContextManager[None]:
        """Several files are read inside as they were at one moment; not to be used inside `locked`."""
        ...


class FolderFiles:
    """Files in a local folder, which is created by the first change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def address(self) -> str:
        """The folder's path."""
        return str(self.folder)

    def place(self, name: str) -> str:
        """The path of a file."""
        return str(self.folder / name)

    def names(self, folder: str = "") -> list[str]:
        """The sorted names of the regular files in a folder."""
        return list(file_names(self.folder / folder))

    def read(self, name: str) -> bytes:
        """The bytes of a regular file of at most 100 MB."""
        return read_file(self.folder / name)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; missing folders are created."""
        path = self.folder / name
        self._make(path.parent)
        write_file(path, text)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        sync_folder(self.folder)

    def remove_folder(self, folder: str) -> None:
        """Delete a folder with its content."""
        path = self.folder / folder
        if path.exists():
            shutil.rmtree(path)
            sync_folder(path.parent)

    def move(self, old: str, new: str) -> None:
        """Rename a file."""
        os.replace(self.folder / old, self.folder / new)
        sync_folder(self.folder)

    def move_folder(self, old: str, new: str) -> None:
        """Rename a folder."""
        if (self.folder / old).exists():
            os.replace(self.folder / old, self.folder / new)
            sync_folder((self.folder / new).parent)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder against changes by others; it is created if it does not exist."""
        return locked(self.folder)

    def steady(self) -> AbstractContextManager[None]:
        """Keep writers out while several files are read; readers do not exclude each other.

        Where there are no locks, nobody can write either: a writer needs one.
        """
        try:
            fd = _opened(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return nullcontext()  # there is nothing yet
        try:
            return _held(fd, fcntl.LOCK_SH)
        except OSError:
            return nullcontext()

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in reversed(missing):
            sync_folder(each.parent)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock the folder against changes by others; it is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    with _held(_opened(folder), fcntl.LOCK_EX):
        yield


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _held(fd: int, how: int) -> AbstractContextManager[None]:
    """The lock of an open folder, taken now and given up at the end; raises OSError."""
    try:
        fcntl.flock(fd, how)
    except BaseException:
        os.close(fd)
        raise
    return _closing(fd)


@contextmanager
def _closing(fd: int) -> Generator[None]:
    try:
        yield
    finally:
        os.close(fd)


def file_names(folder: Path) -> Iterator[str]:
    """The sorted names of the regular files in a folder; empty if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return
    yield from names


def read_file(path: Path) -> bytes:
    """The bytes of a regular file; raises OSError for anything else, and for more than 100 MB."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return data


def write_file(path: Path, text: str) -> None:
    """Replace a file atomically; after a crash there is the old one or the new one."""
    replace_file(path, text.encode("utf-8", "surrogatepass"), 0o666)


_SUFFIXES = {Syntax.DAG: ".json", Syntax.LTP: ".ltp", Syntax.MICRO: ".micro", Syntax.PYTHON: ".py"}
_SYNTAXES = {suffix: syntax for syntax, suffix in _SUFFIXES.items()}

_STATE = "_state"


class PlanFiles:
    """The plans among some files.

    Except in `readable`, `steady` and `writable`, failures of the files are OSError.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @contextmanager
    def writable(self) -> Generator[None]:
        """Hold the lock of the files; raises CallsheetError (PLN004) where they cannot be changed."""
        try:
            with self._files.locked():
                yield
        except OSError as error:
            raise self._unusable("changed", error) from error

    @contextmanager
    def readable(self) -> Generator[None]:
        """Raises CallsheetError (PLN004) where the files cannot be read."""
        try:
            yield
        except OSError as error:
            raise self._unusable("read", error) from error

    @contextmanager
    def steady(self) -> Generator[None]:
        """As `readable`; several files are read as they were at one moment. Not inside `writable`."""
        with self.readable(), self._files.steady():
            yield

    def entries(self) -> Iterator[tuple[str, str, Syntax]]:
        """The files that are plans: id, file name, syntax."""
        for name in self._files.names():
            stem, dot, suffix = name.rpartition(".")
            syntax = _SYNTAXES.get(dot + suffix)
            if syntax is None or (stem.endswith(_STATE) and self._is_state(name, syntax)):
                continue
            try:
                yield check_plan_id(stem), name, syntax
            except CallsheetError:
                continue  # not a plan

    def _is_state(self, name: str, syntax: Syntax) -> bool:
        """Whether a file has the state of a run (`ID_state.json`), and not a plan."""
        if syntax is not Syntax.DAG:
            return False
        try:
            data = read_json(self._files.read(name).decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError, NotJson):
            return False
        return isinstance(data, dict) and {"plan_id", "completed_steps"} <= data.keys()  # pyright: ignore[reportUnknownMemberType]

    def place(self, plan_id: str) -> str:
        """The location of a plan for messages, as a name without a suffix."""
        return self._files.place(plan_id)

    def read(self, plan_id: str, params: Iterable[Param] = ()) -> StoredPlan:
        """The plan in its file; in Micro-CLI a bare word may be one of the parameters.

        Raises CallsheetError (PLN004) if there is not exactly one file, or it is not UTF-8 text.
        """
        address = self._files.address
        with self.readable():
            files = [(name, syntax) for each, name, syntax in self.entries() if each == plan_id]
            if len(files) != 1:
                names = " and ".join(name for name, _ in files) or "nothing"
                raise broken(f"{address} has {names} for the plan {plan_id}", "keep only one of these files")
            ((name, syntax),) = files
            place = self._files.place(name)
            try:
                text = self._files.read(name).decode("utf-8-sig", "surrogatepass")
            except UnicodeDecodeError as error:
                raise broken(f"{place} is not UTF-8 text (byte {error.start})", "repair the file") from error
        variables = [param.name for param in params]
        return StoredPlan(plan_id, place, syntax, read_as(syntax, text, place, variables=variables))

    def write(self, plan_id: str, syntax: Syntax, text: str) -> None:
        """Write the file of a plan, and remove files of it in other syntaxes."""
        file = f"{plan_id}{_SUFFIXES[syntax]}"
        self._files.write(file, text)
        self._files.remove(other for other in self._names(plan_id) if other != file)

    def move(self, old: str, new: str, syntax: Syntax) -> None:
        """Rename the file of a plan."""
        suffix = _SUFFIXES[syntax]
        self._files.move(f"{old}{suffix}", f"{new}{suffix}")

    def replace(self, old: str, new: str, syntax: Syntax, text: str) -> None:
        """Write the file of a plan under a new id, and remove the old one."""
        suffix = _SUFFIXES[syntax]
        self._files.write(f"{new}{suffix}", text)
        self._files.remove([f"{old}{suffix}"])

    def remove(self, plan_id: str) -> None:
        """Delete the files of a plan."""
        self._files.remove(self._names(plan_id))

    def _names(self, plan_id: str) -> list[str]:
        return [name for each, name, _ in self.entries() if each == plan_id]

    def _unusable(self, use: str, error: OSError) -> CallsheetError:
        message = error.strerror or str(error)
        hint = "name another folder: --plans DIR"
        if not isinstance(self._files, FolderFiles):
            hint = "check that it runs and accepts your login, or name a folder: --plans DIR"
        return broken(f"the plans in {self._files.address} cannot be {use}: {message}", hint)


_FOLDER = ".versions"
_NAME = lazy.pattern(r"([1-9][0-9]{0,8})\.json", re.ASCII)


class Versions:
    """The versions of the plans among some files."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def numbers(self, plan_id: str) -> list[int]:
        """The numbers of the versions of a plan, in order."""
        matches = (_NAME.fullmatch(name) for name in self._files.names(f"{_FOLDER}/{plan_id}"))
        return sorted(int(match[1]) for match in matches if match is not None)

    def newest(self, plan_id: str) -> VersionRecord | None:
        """The newest version of a plan; None if it has none."""
        numbers = self.numbers(plan_id)
        return self.read(plan_id, numbers[-1]) if numbers else None

    def all(self, plan_id: str) -> tuple[VersionRecord, ...]:
        """All versions of a plan, in order."""
        return tuple(self.read(plan_id, number) for number in self.numbers(plan_id))

    def place(self, plan_id: str, number: int) -> str:
        """The location of a version for messages."""
        return self._files.place(name_of(plan_id, number))

    def read(self, plan_id: str, number: int) -> VersionRecord:
        """One version; raises CallsheetError: PLN021 if there is none, PLN004 if it is damaged."""
        try:
            data = self._files.read(name_of(plan_id, number))
            record = VersionRecord.from_json(json.loads(data.decode("utf-8", "surrogatepass")))
            return replace(record, id=plan_id)  # the file of a renamed plan has the id of its save
        except FileNotFoundError:
            raise _no_such(plan_id, number, self.numbers(plan_id)) from None
        except (ValueError, RecursionError, CallsheetError) as error:
            raise CallsheetError.single(
                "PLN004",
                f"{self.place(plan_id, number)} cannot be used: {error}",
                help="restore the file, or remove it, which loses the version",
            ) from error

    def write(self, plan_id: str, record: VersionRecord) -> None:
        """Add a version."""
        self._files.write(name_of(plan_id, record.version), layed_out(record.to_json()))

    def remove(self, plan_id: str) -> None:
        """Remove all versions of a plan."""
        self._files.remove_folder(f"{_FOLDER}/{plan_id}")

    def move(self, old: str, new: str) -> None:
        """Move the versions of a plan, if any, to another id; leftover versions of that id are removed."""
        if self.numbers(old):
            self.remove(new)
            self._files.move_folder(f"{_FOLDER}/{old}", f"{_FOLDER}/{new}")


def name_of(plan_id: str, number: int) -> str:
    """The file name of a version."""
    return f"{_FOLDER}/{plan_id}/{number}.json"


def _no_such(plan_id: str, number: int, known: list[int]) -> CallsheetError:
    if not known:
        message, hint = f"the plan {plan_id} has no versions", "saving it again makes the first one"
    else:
        message = f"the plan {plan_id} has no version {number}"
        hint = f"it has 1 to {known[-1]}; `callsheet plan list --versions` shows them"
    return CallsheetError.single("PLN021", message, help=hint)
