"""Fixtures of real local models: the smallest one, fetched as a user would, and its server.

Import them in the `conftest.py` of a folder that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.files import user_folder
from callsheet.ports.models.local import MODELS, LocalModel, LocalSettings, open_local
from callsheet.ports.models.local.catalogue import has_library
from callsheet.ports.models.local.fetching import fetch
from callsheet.ports.models.local.server import close_all

SMALLEST = "smollm2-135m"


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The file of the smallest model, in the folder of CALLSHEET_TEST_MODELS or the cache of the user."""
    if not has_library():
        pytest.skip("the extra `local` is not installed: pip install 'callsheet[local]'")
    named = os.environ.get("CALLSHEET_TEST_MODELS")
    folder = Path(named) if named else user_folder("cache") / "test-models"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLSHEET_MODELS", str(folder))
        try:
            return fetch(MODELS[SMALLEST])
        except CallsheetError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def opened(model_file: Path) -> Iterator[Callable[..., LocalModel]]:
    """Opens the smallest model with the settings of a test; all of them share one process."""
    yield lambda **settings: open_local(
        str(model_file), LocalSettings(threads=1, **{"context": 512, **settings})
    )
    close_all()


@pytest.fixture
def model(opened: Callable[..., LocalModel]) -> LocalModel:
    return opened(timeout=60)
