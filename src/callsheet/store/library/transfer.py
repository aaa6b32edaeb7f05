"""Exports plans with all their versions as one text, and imports them, verified before anything is written.

In: a library and ids, or a text. Out: a self-contained text, or the imported plans. An existing plan
gets the versions that it lacks; a different plan with the same id is refused.
"""

from __future__ import annotations

from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir.strict_json import read_json
from callsheet.store.library.ids import check_plan_id
from callsheet.store.library.library import PlanLibrary
from callsheet.store.library.record import VersionRecord, digest, hash_of, layed_out
from callsheet.store.library.stored import Imported

_FORMAT = 1
_KIND = "plans"


def export_plans(library: PlanLibrary, ids: list[str]) -> str:
    """The plans of these ids as one text.

    An edited file becomes a version first. Raises CallsheetError: PLN002 for an unknown id, PLN004, and the
    errors of a text that is no plan.
    """
    plans: list[dict[str, Any]] = []
    for plan_id in ids:
        library.load(plan_id).require()
        records = library.settled(plan_id)
        plans.append({"id": records[-1].id, "versions": [record.to_json() for record in records]})
    data: dict[str, Any] = {"callsheet": _KIND, "format": _FORMAT, "plans": plans}
    return layed_out({**data, "sha256": digest(data)})


def import_plans(
    library: PlanLibrary, text: str, name: str = "<plans>", *, as_id: str | None = None
) -> list[Imported]:
    """Import the plans of an exported text: all of them, or none.

    `name` is the name of the text in messages; `as_id` is another id for its only plan. Raises
    CallsheetError: PLN026 for a damaged text, PLN027 if a different plan has the id, PLN001, PLN004.
    """
    try:
        plans = _plans(read_json(text))
    except (ValueError, RecursionError, CallsheetError) as error:
        raise _damaged(name, str(error)) from error
    if as_id is not None:
        check_plan_id(as_id)
        if len(plans) != 1:
            raise _damaged(name, f"--as names one plan, but the file has {len(plans)}")
        plans = {as_id: next(iter(plans.values()))}
    return library.take_in(plans)


def _plans(data: Any) -> dict[str, tuple[VersionRecord, ...]]:
    """The versions by id; raises ValueError or CallsheetError for damaged ones."""
    if not isinstance(data, dict):
        raise ValueError("it is not an export of plans")
    fields = cast("dict[str, Any]", data)
    rest = {key: value for key, value in fields.items() if key != "sha256"}
    if fields.get("callsheet") != _KIND or fields.get("format") != _FORMAT:
        raise ValueError("it is not an export of plans, or was written by another version of callsheet")
    if digest(rest) != fields.get("sha256"):
        raise ValueError("its digest does not match: it was changed or truncated")
    versions: dict[str, tuple[VersionRecord, ...]] = {}
    for each in fields["plans"]:
        plan_id = check_plan_id(each["id"])
        if plan_id in versions:
            raise ValueError(f"the plan {plan_id} is in it twice")
        versions[plan_id] = tuple(
            _version(plan_id, at, raw) for at, raw in enumerate(each["versions"], start=1)
        )
        if not versions[plan_id]:
            raise ValueError(f"the plan {plan_id} has no version")
    return versions


def _version(plan_id: str, number: int, raw: Any) -> VersionRecord:
    try:
        record = VersionRecord.from_json(raw)
        if record.version != number:
            raise ValueError(f"version {record.version} is in its place")
        plan = record.parsed().plan
        if plan is None:
            raise ValueError("its text has errors")
        if hash_of(plan) != record.plan_hash:
            raise ValueError("the meaning of its text does not match its hash")
    except (ValueError, CallsheetError) as error:
        raise ValueError(f"the plan {plan_id}: version {number}: {error}") from error
    return record


def _damaged(name: str, why: str) -> CallsheetError:
    return CallsheetError.single(
        "PLN026",
        f"{name} cannot be imported: {why}",
        help="export the plans again; nothing was imported",
    )
