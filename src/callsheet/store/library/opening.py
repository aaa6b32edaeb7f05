"""Opens the plan library in a given folder, or the default one: a local folder, or the shared store."""

from __future__ import annotations

import os
from pathlib import Path

from callsheet.store.library.library import VARIABLE, PlanLibrary
from callsheet.store.shared.address import shared_address

_BELOW = "plans"


def open_library(folder: Path | None = None) -> PlanLibrary:
    """The library in a folder; by default that of $CALLSHEET_PLANS, of $CALLSHEET_STORE, or the user's.

    Raises CallsheetError: CFG230 for a bad address, CFG231 if the PostgreSQL driver is missing.
    """
    address = None if folder is not None or os.environ.get(VARIABLE) else shared_address()
    if address is None:
        return PlanLibrary(folder)
    from callsheet.store.shared.opening import open_database  # noqa: PLC0415 - only for a shared store
    from callsheet.store.shared.texts import SharedFiles  # noqa: PLC0415 - as above

    return PlanLibrary(files=SharedFiles(open_database(address), _BELOW))


def library_at(address: str) -> PlanLibrary | None:
    """The library with this address, which `PlanLibrary.address` told; None for a store that is not ours.

    Raises CallsheetError as `open_library`.
    """
    if os.path.isabs(address):
        return PlanLibrary(address)
    library = open_library()
    return library if library.address == address else None
