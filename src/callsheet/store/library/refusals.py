"""The errors of a plan library, as CallsheetError with a PLN code."""

from __future__ import annotations

from callsheet.diagnostics import CallsheetError


def unknown(message: str, way_out: str) -> CallsheetError:
    """No plan, or more than one, is meant."""
    return CallsheetError.single("PLN002", message, help=way_out)


def taken(name: str, way_out: str) -> CallsheetError:
    """The id is another plan's."""
    return CallsheetError.single("PLN003", f"the plan {name} already exists", help=way_out)


def another(name: str, why: str) -> CallsheetError:
    """The plan that is to be taken in is not the one that is here."""
    return CallsheetError.single(
        "PLN027",
        f"the plan {name} differs from the one here: {why}",
        help=f"import it under another id: --as {name}-2",
    )


def broken(message: str, way_out: str) -> CallsheetError:
    """The library, or a file of it, cannot be used."""
    return CallsheetError.single("PLN004", message, help=way_out)
