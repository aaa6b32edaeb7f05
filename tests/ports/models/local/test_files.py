"""Names and paths of local models, the headers of their files, their number of threads."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local import MODELS, catalogue, detect, open_local
from callsheet.ports.models.local.catalogue import Gguf, models_folder, read_gguf
from callsheet.ports.models.local.model import fitting_context
from callsheet.ports.models.local.server import free_threads
from callsheet.ports.models.opening import open_model


def gguf(**pairs: object) -> bytes:
    """The header of a model file with these pairs; dots replace double underscores."""
    body = b""
    for name, value in pairs.items():
        key = name.replace("__", ".").encode()
        body += struct.pack("<Q", len(key)) + key
        if isinstance(value, str):
            body += struct.pack("<IQ", 8, len(value)) + value.encode()
        elif isinstance(value, list):
            body += struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
        else:
            body += struct.pack("<II", 4, value)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


def code_of(named: str) -> str:
    with pytest.raises(CallsheetError) as refused:
        open_local(named)
    return refused.value.diagnostics[0].code


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CALLSHEET_MODELS", str(tmp_path))
    return tmp_path


def test_unknown_name_suggests_nearest() -> None:
    with pytest.raises(CallsheetError) as refused:
        open_model("local:smollm2-135")
    diagnostic = refused.value.diagnostics[0]
    assert diagnostic.code == "MDL021"
    assert "smollm2-135m" in (diagnostic.help or "")


def test_unfetched_model_error_names_fetch_command() -> None:
    with pytest.raises(CallsheetError) as refused:
        open_model("local:qwen2.5-coder-0.5b")
    diagnostic = refused.value.diagnostics[0]
    assert diagnostic.code == "MDL022"
    assert "callsheet models get qwen2.5-coder-0.5b" in (diagnostic.help or "")
    assert "491 MB, Apache-2.0" in (diagnostic.help or "")


def test_missing_path_is_refused(folder: Path) -> None:
    assert code_of(str(folder / "none.gguf")) == "MDL023"
    assert code_of("./none.gguf") == "MDL023"


def test_missing_library_error_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LIBRARY", "a_library_that_is_not_here")
    with pytest.raises(CallsheetError) as refused:
        open_model("local:smollm2-135m")
    diagnostic = refused.value.diagnostics[0]
    assert diagnostic.code == "MDL020"
    assert diagnostic.help == "pip install 'callsheet[local]'"
    assert detect().default is None
    assert "callsheet[local]" in (detect().help or "")


def test_present_models_are_listed_without_reading_them(folder: Path) -> None:
    assert detect().default is None
    assert str(folder) in detect().found
    for name in ("qwen2.5-coder-0.5b", "smollm2-135m"):
        (folder / f"{name}.gguf").touch()
    assert detect().models == ("smollm2-135m", "qwen2.5-coder-0.5b")
    assert detect().default == "local:qwen2.5-coder-0.5b"
    assert models_folder() == folder


def test_table_entries_are_complete() -> None:
    for model in MODELS.values():
        assert len(model.sha256) == 64
        assert model.size > 1e7
        assert model.licence
        assert all("==" in package for package in model.packages)


def test_file_header_is_parsed(folder: Path) -> None:
    path = folder / "m.gguf"
    path.write_bytes(
        gguf(
            general__architecture="tiny",
            some__list=[1, 2, 3],
            general__name="Tiny",
            tiny__context_length=512,
            tokenizer__x=1,
        )
    )
    assert read_gguf(path) == Gguf("tiny", "Tiny", "", 512)
    assert fitting_context(path, None) == 512
    assert fitting_context(path, 128) == 128
    path.write_bytes(gguf(general__architecture="vast", vast__context_length=100_000))
    assert fitting_context(path, None) == 8192
    assert fitting_context(path, 32_768) == 32_768


@given(st.binary(max_size=80), st.integers(0, 200))
def test_header_parser_never_raises(tail: bytes, cut: int) -> None:
    """Any file is read, or refused with a ValueError."""
    whole = gguf(general__architecture="tiny", tiny__context_length=512, x__y=[1, 2])
    for data in (tail, whole[:cut] + tail, whole[:24] + tail):
        path = models_folder() / "any.gguf"
        path.write_bytes(data)
        with suppress(ValueError):
            assert isinstance(read_gguf(path), Gguf)


@given(st.integers(1, 256), st.floats(0, 1000))
def test_thread_count_depends_on_machine_load(cores: int, load: float) -> None:
    threads = free_threads(cores, load)
    assert 1 <= threads <= min(8, cores)
    if load >= cores - 1:
        assert threads == 1
    if load < 0.5:
        assert threads == min(8, cores)
