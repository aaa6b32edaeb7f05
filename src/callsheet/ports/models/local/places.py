"""Locates model files, by name or by path.

In: the text after `local:`. Out: the path of an existing file, or CallsheetError (MDL021, MDL022, MDL023).
"""

from __future__ import annotations

import os
from pathlib import Path

from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.ports.models.local.catalogue import MODELS, LocalFile

VARIABLE = "CALLSHEET_MODELS"
"""The environment variable with the folder of model files, instead of the default."""

SUFFIX = ".gguf"


def models_folder() -> Path:
    """The folder of fetched models, which need not exist."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path  # noqa: PLC0415 - only where no folder is named

    return user_data_path("callsheet", appauthor=False) / "models"


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
        suggestions = did_you_mean(name, MODELS)
        hint = (
            f"did you mean {' or '.join(suggestions)}?" if suggestions else f"there are {', '.join(MODELS)}"
        )
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
