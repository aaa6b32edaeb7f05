"""Seal keys are outside of the journal, created once, and refused if others could read them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked

from callsheet.store import JournalError
from callsheet.store.seal_keys import FILE_VARIABLE, VARIABLE, KeyStore


def test_key_is_created_with_first_secret_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "config" / "seal.key"
    made = KeyStore(path, {}).sealing().sealing
    assert path.stat().st_mode & 0o777 == 0o600
    assert KeyStore(path, {}).sealing().sealing.name == made.name == KeyStore(path, {}).opening().sealing.name
    assert [child.name for child in path.parent.iterdir()] == ["seal.key"]


def test_concurrent_creators_share_key(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from callsheet.store.seal_keys import Vault;"
        "sys.stdin.read(1); print(Vault(Path(sys.argv[1]), {}).sealing().sealing.name)"
    )
    children = [
        forked.Popen(
            [sys.executable, "-c", code, str(tmp_path / "seal.key")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    names = {child.communicate("x")[0] for child in children}
    assert len(names) == 1


def test_environment_has_key_or_names_file(tmp_path: Path) -> None:
    by_hand = KeyStore(None, {VARIABLE: "5e" * 32})
    (tmp_path / "k").write_text(f"# ours\n{'5e' * 32}\n")
    (tmp_path / "k").chmod(0o600)
    assert (
        by_hand.opening().sealing.name
        == KeyStore(None, {FILE_VARIABLE: str(tmp_path / "k")}).opening().sealing.name
    )


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("5e" * 32, 0o644, "it is accessible to other users"),
        ("not a key", 0o600, "64 hexadecimal digits"),
        ("", 0o600, "no key in it"),
    ],
)
def test_unsafe_key_file_is_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    path = tmp_path / "seal.key"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(JournalError, match=said) as refused:
        KeyStore(path, {}).sealing()
    assert refused.value.diagnostics[0].code == "SEC003"


def test_nothing_is_opened_and_no_key_is_created_without_key(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as refused:
        KeyStore(tmp_path / "seal.key", {}).opening()
    assert refused.value.diagnostics[0].code == "SEC001"
    assert not (tmp_path / "seal.key").exists()


def test_uncreatable_key_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError) as refused:
        KeyStore(tmp_path / "file" / "seal.key", {}).sealing()
    assert refused.value.diagnostics[0].code == "SEC003"


def test_key_is_durable_before_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it has its name, and then the folders above it."""
    done: list[str] = []

    def synced(fd: int, sync: Callable[[int], None] = os.fsync) -> None:
        sync(fd)
        done.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    def linked(source: Path, target: Path, link: Callable[..., None] = os.link) -> None:
        link(source, target)
        done.append("named")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    KeyStore(tmp_path / "config" / "callsheet" / "seal.key", {}).sealing()
    assert done == ["config", tmp_path.name, f".seal.key.{os.getpid()}.new", "named", "callsheet"]
