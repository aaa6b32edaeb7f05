"""The errors of a plan library, as CallsheetError with a PLN code."""

from __future__ import annotations

from callsheet.diagnostics import CallsheetError


def unknown(message: str, hint: str) -> CallsheetError:
    """The error if no plan or more than one matches (PLN002)."""
    return CallsheetError.single("PLN002", message, help=hint)


def taken(name: str, hint: str) -> CallsheetError:
    """The error for an id that is taken."""
    return CallsheetError.single("PLN003", f"the plan {name} already exists", help=hint)


def another(name: str, why: str) -> CallsheetError:
    """The error for an imported plan that differs from the stored one with its id."""
    return CallsheetError.single(
        "PLN027",
        f"the plan {name} differs from the one here: {why}",
        help=f"import it under another id: --as {name}-2",
    )


def broken(message: str, hint: str) -> CallsheetError:
    """The error for a library, or a file of it, that cannot be used."""
    return CallsheetError.single("PLN004", message, help=hint)
