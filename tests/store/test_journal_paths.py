"""The location of a journal: network file systems, the environment, relative paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.store import Journal, JournalError, default_journal_path
from callsheet.store.journal_paths import refuse_network_file_system

_MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
broken
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    table = tmp_path / "mounts"
    table.write_text(_MOUNTS)
    return table


@pytest.mark.parametrize("path", ["/home/me/journal.db", "/mnt/my share/x/journal.db"])
def test_network_file_system_is_refused(path: str, mounts: Path) -> None:
    with pytest.raises(JournalError, match="JRN011"):
        refuse_network_file_system(Path(path), mounts)


@pytest.mark.parametrize(
    "kind",
    [
        *("afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("smb2", "smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
        *(
            "9p",
            "virtiofs",
            "fuse.virtiofs",
            "vboxsf",
            "fuse.vmhgfs-fuse",
            "fakeowner",
            "fuse.grpcfuse",
            "drvfs",
        ),
        *("fuse.gcsfuse", "fuse.rclone", "fuse.juicefs", "fuse.cephfs", "gpfs", "orangefs"),
    ],
)
def test_each_shared_file_system_type_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/data /data {kind} rw 0 0\n")
    with pytest.raises(JournalError, match=f"JRN011.*[(]{kind}[)]"):
        refuse_network_file_system(Path("/data/journal.db"), table)
    refuse_network_file_system(Path("/other/journal.db"), table)


def test_host_file_system_is_accepted_as_root_of_sandbox(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text("none / 9p rw 0 0\nhost /shared 9p rw 0 0\n")
    refuse_network_file_system(Path("/home/journal.db"), table)
    with pytest.raises(JournalError, match="JRN011"):
        refuse_network_file_system(Path("/shared/journal.db"), table)


@pytest.mark.parametrize("path", ["/var/journal.db", "/home/local/journal.db", "/homes/journal.db"])
def test_local_file_system_is_accepted(path: str, mounts: Path) -> None:
    refuse_network_file_system(Path(path), mounts)


def test_nothing_is_refused_where_mounts_are_unknown(tmp_path: Path) -> None:
    refuse_network_file_system(Path("/home/me/journal.db"), tmp_path / "nothing")


def test_environment_names_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALLSHEET_JOURNAL", str(tmp_path / "mine.db"))
    assert default_journal_path() == tmp_path / "mine.db"


def test_default_journal_is_in_user_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CALLSHEET_JOURNAL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_journal_path().name == "journal.db"
    assert default_journal_path().parent.name == "callsheet"


def test_relative_path_is_resolved_at_opening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal.open(Path("j #1?.db")) as journal:
        monkeypatch.chdir("/")
        assert journal.path == tmp_path / "j #1?.db"
        assert journal.runs() == []


@pytest.mark.parametrize("address", ["postgresql://ada:pw@db.example/runs", "sqlite:///journal.db"])
def test_address_is_no_path(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (address, Path(address)):
        with pytest.raises(JournalError, match=r"JRN010: the journal cannot be at an address \(\w+://…\)"):
            Journal.open(path)
    assert not [*tmp_path.iterdir()]
