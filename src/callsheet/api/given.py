"""What callers of the library give, as what runs are made of: variables, decisions, ids.

In: Python values. Out: JSON values of their own, or an error that names what cannot be given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wanted import wanted, wanted_list, wanted_names
from callsheet.ir import JSON
from callsheet.machine import Decision, TookPlace
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.runtime.doubt import Resolution
from callsheet.store import check_run_id, new_run_id

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

InDoubt: TypeAlias = "Decision | Literal['retry', 'skip', 'fail'] | TookPlace"
"""What becomes of calls that may or may not have taken place: make them again, go on as if they
had given null, take them as failed, or go on with the value that they gave."""


def names_of(given: Iterable[str], argument: str) -> Iterable[str]:
    """Names of tools; raises TypeError for one text, which would be taken letter by letter."""
    if isinstance(given, str):
        raise TypeError(f"{argument} must be a list of names: {argument}=[{given!r}]")
    names = wanted_list(argument, given, "names")
    return [wanted(argument, name, str, "a list of names") for name in names]


def values_of(inputs: Mapping[str, Any] | None, argument: str = "inputs") -> dict[str, JSON]:
    """The variables of a run as JSON of their own; raises CallsheetError (RUN022).

    `argument` is what the caller of the library calls them, for a TypeError.
    """
    values: dict[str, JSON] = {}
    for name, value in wanted_names(argument, inputs).items():
        if _NAME.fullmatch(name) is None:
            raise _cannot_be_given(name, "it is not a name", "names are letters, digits and _, without $")
        try:
            values[name] = to_json(value)
        except ToolFailed as error:
            raise _cannot_be_given(f"${name}", str(error), "give JSON data") from error
    return values


class Given(NamedTuple):
    """The variables that a run is given, and the names of those that are secret."""

    values: Mapping[str, JSON]
    secret: frozenset[str] = frozenset()

    @property
    def told(self) -> frozenset[str]:
        """What the preparation of a plan depends on."""
        return frozenset((*self.values, *(f"{name} (secret)" for name in self.secret)))


def with_secrets(
    inputs: Mapping[str, Any] | None, secrets: Mapping[str, Any] | None
) -> tuple[dict[str, JSON], frozenset[str]]:
    """All variables of a run, and the names of the secret ones.

    Raises CallsheetError: RUN022 for a value that has no JSON, SEC005 for a name that is given twice.
    """
    values, secret = values_of(inputs), values_of(secrets, "secrets")
    both = sorted(values.keys() & secret.keys())
    if both:
        raise CallsheetError.single(
            "SEC005", f"{both[0]} is given twice", help="give each variable once: in inputs or in secrets"
        )
    return {**values, **secret}, frozenset(secret)


def assumed_results(given: Mapping[str, Any] | None) -> dict[str, JSON]:
    """Results by step id as JSON of their own; raises CallsheetError (RUN040)."""
    values: dict[str, JSON] = {}
    for step_id, value in wanted_names("assume", given).items():
        try:
            values[step_id] = to_json(value)
        except ToolFailed as error:
            message = f"the result of {step_id} cannot be assumed: {error}"
            raise CallsheetError.single("RUN040", message, help="give JSON data") from error
    return values


def _cannot_be_given(name: str, reason: str, way_out: str) -> CallsheetError:
    return CallsheetError.single("RUN022", f"the variable {name} cannot be given: {reason}", help=way_out)


def verdict_of(given: InDoubt) -> Resolution:
    """A decision as the runtime takes it.

    Raises ToolFailed for a value that has no JSON, ValueError for a word that is no decision.
    """
    if isinstance(given, TookPlace):
        return TookPlace(to_json(given.value))
    try:
        return Decision(given)
    except ValueError:
        words = ", ".join(map(repr, map(str, Decision)))
        raise ValueError(f"{given!r} is no decision; it is one of {words} or TookPlace(value)") from None


def id_of_run(given: str | None) -> str:
    """The id of a new run; raises JournalError (JRN001) for one that is none."""
    return new_run_id() if given is None else check_run_id(given)
