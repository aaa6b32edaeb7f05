"""What a disk keeps when the power goes: synced bytes and names for certain, of all others any mixture.

Files are real ones under a folder. Of each file that callsheet writes itself this records what has reached
the disk, and the writes since, of which every sector may be kept or lost on its own; of each folder the names
that are synced. SQLite is trusted to sync as it says: transactions are kept if each commit is synced,
otherwise those that the last checkpoint has not moved, and that came after the last synced one, may be cut
off at any place.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

_SECTOR = 512
_WAL_HEAD, _FRAME_HEAD = 32, 24


class _Content:
    """A file: what is on the disk, and the writes that may not be."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self.since: list[tuple[int, bytes | None]] = []
        """Writes by place; without bytes, that the file got this length."""


def _apply(data: bytearray, at: int, written: bytes | None) -> None:
    if written is None:
        del data[at:]
        data.extend(bytes(at - len(data)))
        return
    data.extend(bytes(max(0, at - len(data))))
    data[at : at + len(written)] = written


class Disk:
    """The files of a simulated machine, under `root`."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.root = folder / "disk1"
        self.root.mkdir()
        self._folder = folder
        self._chance = chance
        self._number = 1
        self._contents: dict[int, _Content] = {}
        self._names: dict[str, int] = {}
        self._synced_names: dict[str, int] = {}
        self._unsynced_folders: set[str] = set()
        self.commits_are_synced = True
        self._synced_log = b""

    def _of(self, fd: int) -> _Content:
        inode = os.fstat(fd).st_ino
        content = self._contents.get(inode)
        if content is None:
            content = self._contents[inode] = _Content()
        return content

    def opened(self, path: str, fd: int, *, is_new: bool, is_cut: bool) -> None:
        """A file was opened, and made or emptied."""
        if is_new:
            inode = os.fstat(fd).st_ino
            self._names[path] = inode
            self._contents[inode] = _Content()
        elif is_cut:
            self.cut(fd, 0)

    def wrote(self, fd: int, at: int, data: bytes) -> None:
        """Bytes were written."""
        self._of(fd).since.append((at, data))

    def cut(self, fd: int, size: int) -> None:
        """A file got this length."""
        self._of(fd).since.append((size, None))

    def synced(self, fd: int) -> None:
        """A file or a folder was synced."""
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            path = ""
        if os.path.isdir(path):
            self._sync_names(path)
            return
        content = self._of(fd)
        for at, data in content.since:
            _apply(content.synced, at, data)
        content.since.clear()

    def _sync_names(self, folder: str) -> None:
        for names, others in ((self._names, self._synced_names), (self._synced_names, self._names)):
            for path in [one for one in names if os.path.dirname(one) == folder]:
                if names is self._names:
                    others[path] = names[path]
                elif path not in others:
                    del names[path]
        self._unsynced_folders = {one for one in self._unsynced_folders if os.path.dirname(one) != folder}

    def made(self, path: str) -> None:
        """A folder was made."""
        self._unsynced_folders.add(path)

    def linked(self, path: str, other: str) -> None:
        """A file got a second name."""
        if path in self._names:
            self._names[other] = self._names[path]

    def renamed(self, path: str, other: str) -> None:
        """A file got another name."""
        if path in self._names:
            self._names[other] = self._names.pop(path)

    def removed(self, path: str) -> None:
        """A name was removed."""
        self._names.pop(path, None)

    def committed(self) -> None:
        """A transaction of the database has ended."""

    def synced_commits(self) -> None:
        """A process that syncs its commits has made one, so all before it in the log are on the disk, too."""
        log = self.root / "journal.db-wal"
        self._synced_log = log.read_bytes() if log.exists() else b""

    def lose_power(self) -> None:
        """Go on with what the disk has kept, in another folder; all processes must be dead."""
        before, chance = self.root, self._chance
        self._number += 1
        self.root = self._folder / f"disk{self._number}"
        kept: dict[str, int] = {}
        lost = {folder for folder in sorted(self._unsynced_folders) if chance.random() < 0.5}
        for path in sorted({*self._names, *self._synced_names}):
            found = [inode for names in (self._names, self._synced_names) if (inode := names.get(path))]
            is_certain = len(found) == 2 and found[0] == found[1]
            inode = (
                found[0]
                if is_certain
                else chance.choice([self._names.get(path), self._synced_names.get(path)])
            )
            if inode is not None and not any(path.startswith(f"{folder}/") for folder in lost):
                kept[path] = inode
        self.root.mkdir()
        for name in ("journal.db", "journal.db-wal"):
            if (before / name).exists():
                data = (before / name).read_bytes()
                (self.root / name).write_bytes(self._cut_log(before, data) if name.endswith("-wal") else data)
        contents = {inode: self._kept(self._contents[inode]) for inode in dict.fromkeys(kept.values())}
        self._names, self._synced_names, self._contents = {}, {}, {}
        self._unsynced_folders = set()
        for path, inode in kept.items():
            if path.endswith((".lock", ".spare", ".write-lock", ".room")):
                continue
            place = self.root / Path(path).relative_to(before)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(contents[inode])
            now = place.stat().st_ino
            self._names[str(place)] = self._synced_names[str(place)] = now
            self._contents[now] = _Content()
            self._contents[now].synced = bytearray(contents[inode])

    def _kept(self, content: _Content) -> bytes:
        """The bytes of a file after the power is back."""
        data, way = bytearray(content.synced), self._chance.choice((0, 0, 1, 2, 2))
        if way == 0:
            return bytes(data)
        for at, written in content.since:
            if written is None:
                if way == 1 or self._chance.random() < 0.5:
                    _apply(data, at, None)
                continue
            for start in range(0, len(written), _SECTOR):
                if way == 1 or self._chance.random() < 0.5:
                    _apply(data, at + start, written[start : start + _SECTOR])
        return bytes(data)

    def _cut_log(self, before: Path, data: bytes) -> bytes:
        """The write-ahead log; without synced commits, cut somewhere behind the last checkpoint."""
        if self.commits_are_synced or len(data) < _WAL_HEAD:
            return data
        (page,) = struct.unpack_from(">I", data, 8)
        frame = page + _FRAME_HEAD
        frames = (len(data) - _WAL_HEAD) // frame
        index = (before / "journal.db-shm").read_bytes()
        (moved,) = struct.unpack_from("=I", index, 96)
        is_this_log = data[:_WAL_HEAD] == self._synced_log[:_WAL_HEAD]
        synced = (len(self._synced_log) - _WAL_HEAD) // frame if is_this_log else 0
        end = _WAL_HEAD + self._chance.randint(min(max(moved, synced), frames), frames) * frame
        torn = self._chance.randrange(frame) if end < len(data) else 0
        return data[: end + torn]
