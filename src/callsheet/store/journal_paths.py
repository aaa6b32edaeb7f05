"""Determines the paths of a journal's files, and refuses unsuitable locations.

In: paths. Out: paths, or a JournalError for a file system that machines share, whose locks and mapped memory
are unreliable, and for a device, a pipe or a socket. Nothing is opened here but the kernel's mount table.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callsheet import lazy
from callsheet.files import user_folder
from callsheet.store.errors import JournalError

_NETWORK = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "coda", "gpfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("orangefs", "pvfs2", "smb2", "smb3", "smbfs", "wekafs"),
        *("fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.ceph-fuse", "fuse.cephfs", "fuse.curlftpfs"),
        *("fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.lizardfs"),
        *("fuse.mfs", "fuse.mount-s3", "fuse.rclone", "fuse.s3fs", "fuse.seaweedfs", "fuse.smbnetfs"),
        *("fuse.sshfs",),
    }
)
_OF_THE_HOST = frozenset(
    {
        *("9p", "drvfs", "fakeowner", "osxfs", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"),
        *("fuse.grpcfuse", "fuse.osxfs", "fuse.virtiofs", "fuse.vmhgfs-fuse"),
    }
)
"""File systems by which a virtual machine or container uses files of its host. They do not keep the memory
that is mapped from a file the same on both sides, as SQLite's WAL requires, or cannot map it at all. As the
root of a sandbox (gVisor, Kata) such a file system belongs to its processes alone.
"""
ROOM = 1024 * 1024
"""Bytes that must be free on the disk to claim a run."""
_MOUNTS = Path("/proc/self/mounts")


class JournalPaths(NamedTuple):
    """The files of one journal: the database and what is beside it."""

    database: Path
    write_lock: Path
    """Held by the process that is in a write transaction."""
    run_locks: Path
    """A folder with one lock file for each run that a process owns."""
    blobs: Path
    """A folder with the values over 256 KiB, by their hash."""


def _is_scheme(part: str) -> bool:
    """Whether the first part of a path is that of an address, and no drive."""
    name = part.removesuffix(":")
    return len(name) > 1 and name != part and name.isascii() and name.replace("+", "").isalnum()


def place_of(path: Path) -> JournalPaths:
    """The files of the journal at `path`, made absolute; raises JournalError as `beside_journal`.

    Also (JRN010) for an address, such as `postgresql://…`, which as a path would be that of a new folder.
    """
    if len(path.parts) > 1 and _is_scheme(path.parts[0]):
        raise JournalError(
            "JRN010",
            f"the journal cannot be at an address ({path.parts[0]}//…): it is a file of this machine",
            hint="name a file; $CALLSHEET_STORE has the address of what machines share, and Temporal runs"
            " work on more than one machine",
        )
    database = Path(os.path.abspath(path))
    return JournalPaths(
        database,
        beside_journal(database, "write-lock", "."),
        beside_journal(database, "runs", "."),
        beside_journal(database, "blobs", "."),
    )


def beside_journal(database: Path, what: str, joint: str = "-") -> Path:
    """The path of a file beside the database, named after it; raises JournalError (JRN010) for `/`."""
    if not database.name:
        raise JournalError(
            "JRN010",
            f"the journal {database} cannot be used: it is a folder",
            hint="name a file: set CALLSHEET_JOURNAL or --journal",
        )
    return database.with_name(f"{database.name}{joint}{what}")


def is_special(path: Path) -> bool:
    """Whether the path is a device, a pipe or a socket, which must not be replaced; raises OSError."""
    return path.exists() and not (path.is_file() or path.is_dir())


def refuse_special(path: Path) -> None:
    """Raise JournalError (JRN010) for a device, a pipe or a socket: it would be replaced, or block."""
    if is_special(path):
        raise JournalError(
            "JRN010",
            f"the journal {path} cannot be used: it is a device or a pipe, not a file",
            hint="name a file; to run without recording, use --no-journal",
        )


def is_absent(path: Path) -> bool:
    """Whether nothing is there. False if access is denied: opening the path then says why."""
    try:
        path.stat()
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR)
    return False


def require_room(place: JournalPaths) -> None:
    """Raise OSError if the disk has no room for what a run may write soon; leaves no file behind."""
    path = place.database.with_name(f"{place.database.name}.{os.getpid()}.room")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        path.unlink(missing_ok=True)  # another thread, or a process with this id in a container, may do it
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, ROOM)
        else:
            os.write(fd, bytes(ROOM))
            os.fsync(fd)
    finally:
        os.close(fd)


def default_journal_path() -> Path:
    """The journal used when none is named: $CALLSHEET_JOURNAL, else in the user's data folder."""
    named = os.environ.get("CALLSHEET_JOURNAL")
    if named:
        return Path(named).expanduser()
    return user_folder("data") / "journal.db"


def refuse_network_file_system(path: Path, mounts: Path = _MOUNTS) -> None:
    """Raise JournalError (JRN011) if `path` is on a file system that machines share, if the system tells.

    `mounts` is the kernel's table; where there is none (outside Linux) nothing is refused.
    """
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    mount_point, kind = _mount_of(os.path.realpath(path), table)
    if kind in _NETWORK or (kind in _OF_THE_HOST and mount_point != "/"):
        where = "a network file system" if kind in _NETWORK else "a file system shared with the host"
        raise JournalError(
            "JRN011",
            f"{path} is on {where} ({kind}); a journal there could be damaged",
            hint="keep the journal on a local disk: set CALLSHEET_JOURNAL or --journal",
        )


def _mount_of(real_path: str, table: str) -> tuple[str, str]:
    """The mount that contains the path, the one with the longest mount point, and its file system type."""
    best, kind = "", ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1])
        leads_there = real_path == point or real_path.startswith(point.rstrip("/") + "/")
        if leads_there and len(point) >= len(best):
            best, kind = point, fields[2]
    return best, kind


_RUN_ID = lazy.pattern(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_MOMENTS_A_MINUTE = 32**4


def check_run_id(run_id: str) -> str:
    """The id itself if it matches `[a-z0-9][a-z0-9._-]{0,63}`; raises JournalError (JRN001) otherwise."""
    if _RUN_ID.fullmatch(_text(run_id)) is None:
        raise JournalError(
            "JRN001",
            f"{run_id[:80]!a} is not a run id",
            hint="1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first",
        )
    return run_id


def may_begin_run_id(text: str) -> bool:
    """Whether some run id is `text` or starts with it."""
    return _RUN_ID.fullmatch(_text(text)) is not None


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"run_id must be a text, not {type(given).__name__}")
    return given


def new_run_id(
    clock: Callable[[], float] = time.time, random_below: Callable[[int], int] | None = None
) -> str:
    """A fresh id such as `20261121-2301-k3f9zq`.

    `clock` gives seconds since 1970; `random_below(n)` a whole number from 0 to n - 1, by default
    from the system.

    >>> new_run_id(lambda: 1795302119.5, lambda n: 7)
    '20261121-2301-zqex07'
    """
    now = clock()
    minute, within = divmod(now, 60.0)
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime(minute * 60.0))
    moment = min(int(within / 60.0 * _MOMENTS_A_MINUTE), _MOMENTS_A_MINUTE - 1)
    return f"{stamp}-{_digits(moment, 4)}{_digits((random_below or _random_below)(32**2), 2)}"


def _random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(8), "big") % limit


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))


def is_owned(place: JournalPaths, run_id: str) -> bool:
    """Whether a living process holds the run's lock.

    Takes a shared lock for an instant. Raises JournalError (JRN001) for an invalid id.
    """
    path = place.run_locks / f"{check_run_id(run_id)}.lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def progress_of(journal: Path, run_id: str) -> Path:
    """The file in which the process that executes a run tells others how far its calls are.

    Raises JournalError (JRN001) for an invalid id.
    """
    return place_of(journal).run_locks / f"{check_run_id(run_id)}.progress"


def attempts_of(place: JournalPaths, run_id: str) -> Path:
    """The file in which servers count how often they resumed the run by themselves; deleted with the run.

    Raises JournalError (JRN001) for an invalid id.
    """
    return place.run_locks / f"{check_run_id(run_id)}.attempts"
