"""Saves, finds, loads and deletes the plans of a library by id.

In: an id or an unambiguous prefix, with `@N` for version N; plans. Out: stored plans, or CallsheetError
with a PLN code. Each save adds a version; the newest is in the folder itself. Plans are files, not rows,
so that they can be edited, and reviewed in a pull request. Machines may share the files in a common store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError, meant
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_path
from callsheet.files import user_folder
from callsheet.frontends.spelling import Syntax, format_as
from callsheet.ir import JSON, Order, Plan
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.plan import called_names
from callsheet.ir.strict_json import read_json
from callsheet.store.library.params import Param, declared_params, fitted
from callsheet.store.library.plan_files import Files, FolderFiles, PlanFiles, Versions
from callsheet.store.library.record import (
    Imported,
    Listed,
    Purpose,
    StoredPlan,
    VersionRecord,
    another,
    check_plan_id,
    digest,
    goal_of,
    hash_of,
    layed_out,
    new_plan_id,
    taken,
    unknown,
)
from callsheet.store.shared.opening import SharedFiles, open_database, shared_address

VARIABLE = "CALLSHEET_PLANS"
"""The variable with the folder of the plan library, instead of the one in the user's data folder."""


def default_plans_folder() -> Path:
    """The folder used when none is named: $CALLSHEET_PLANS, else in the user's data folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return user_folder("data") / "plans"


class PlanLibrary:
    """The plans of one folder, which is created when the first plan is saved."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        place = default_plans_folder() if folder is None else wanted_path("folder", folder)
        self._files = files or FolderFiles(place)
        self._clock = clock
        self._plans = PlanFiles(self._files)
        self._versions = Versions(self._files)

    @property
    def folder(self) -> Path | None:
        """The folder of the plans; None if they are in a shared store."""
        return self._files.folder if isinstance(self._files, FolderFiles) else None

    @property
    def address(self) -> str:
        """The location of the plans for messages: a folder, or the address of a store."""
        return self._files.address

    @property
    def _origin(self) -> str:
        return self.address if self.folder is None else os.path.abspath(self.folder)

    # ------------------------------------------------------------ looking

    def ids(self) -> tuple[str, ...]:
        """The sorted ids of all plans; raises CallsheetError (PLN004) if the folder cannot be read."""
        with self._plans.readable():
            return tuple(dict.fromkeys(plan_id for plan_id, _, _ in self._plans.entries()))

    def list(self) -> list[Listed]:
        """All plans, ordered by id, including those whose text has errors."""
        with self._plans.steady():
            return [self._listed(plan_id) for plan_id in self.ids()]

    def _listed(self, plan_id: str) -> Listed:
        try:
            stored = self._load(plan_id)
        except CallsheetError:
            return Listed(plan_id, self._plans.place(plan_id), Syntax.DAG, None, None, None)
        plan = stored.result.plan
        part = plan or stored.result.partial
        goal = part.goal if stored.record is None else stored.record.goal or part.goal
        count = None if plan is None else len(plan.steps)
        params = stored.params if plan is None or plan.tree is None else declared_params(plan.tree.inputs)
        more = stored.version, stored.is_edited, params
        return Listed(plan_id, stored.place, stored.syntax, part.title, goal, count, *more)

    def find(self, text: str) -> str:
        """The id with this text as an unambiguous prefix, or the text itself if it is an id.

        Raises CallsheetError: PLN001 for an invalid id, PLN002 if no plan or more than one matches.
        """
        check_plan_id(text)
        known = self.ids()
        if text in known:
            return text
        near = [plan_id for plan_id in known if plan_id.startswith(text)]
        if len(near) == 1:
            return near[0]
        if near:
            shown = ", ".join(near[:3]) + (", …" if len(near) > 3 else "")
            raise unknown(f"more than one plan begins with {text}: {shown}", "give more characters of the id")
        hint = meant(text, known, "`callsheet plan list` lists them")
        raise unknown(f"there is no plan {text} in {self.address}", hint)

    def load(self, text: str) -> StoredPlan:
        """The plan with an id or a prefix of one, parsed according to its suffix; `ID@N` is version N of it.

        Its text may have errors: `StoredPlan.require` raises them. Raises CallsheetError: as `find`,
        PLN004 if a file cannot be read, PLN021 for an unknown version.
        """
        check_plan_id(wanted("text", text, str, "the id of a plan").partition("@")[0])
        with self._plans.steady():
            return self._load(text)

    def _load(self, text: str) -> StoredPlan:
        """As `load`, for whoever has locked the files."""
        name, at, number = text.partition("@")
        plan_id = self.find(name)
        if at:
            with self._plans.readable():
                record = self._versions.read(plan_id, _number(text, number))
            place = self._versions.place(plan_id, record.version)
            return StoredPlan(plan_id, place, record.syntax, record.parsed(), record)
        with self._plans.readable():
            record = self._versions.newest(plan_id)
        stored = self._plans.read(plan_id, () if record is None else record.params)
        edited = record is not None and (record.text, record.syntax) != (stored.text, stored.syntax)
        return replace(stored, record=record, is_edited=edited, library=self._origin)

    def versions(self, text: str) -> tuple[VersionRecord, ...]:
        """All versions of a plan, in order; raises CallsheetError as `load`."""
        with self._plans.steady():
            return self._versions.all(self.find(text))

    def purposes(self) -> list[Purpose]:
        """The goals of the plans, except for plans that cannot be read or have none.

        The newest version of each plan is read, or its file if it has no version. Raises CallsheetError
        (PLN004) for a folder that cannot be read.
        """
        purposes: list[Purpose] = []
        for plan_id in self.ids():
            try:
                record = self._versions.newest(plan_id)
                if record is None:
                    goal = self._plans.read(plan_id).goal
                else:
                    goal = record.goal or goal_of(record.parsed())
            except (CallsheetError, OSError):
                continue
            if goal:
                purposes.append(Purpose(plan_id, goal, 0.0 if record is None else record.saved))
        return purposes

    # ------------------------------------------------------------ changing

    def save(  # noqa: PLR0913 - the data stored with a plan
        self,
        plan: Plan,
        plan_id: str | None = None,
        *,
        text: str | None = None,
        syntax: Syntax | None = None,
        replaces: bool = False,
        params: Iterable[Param] | None = None,
        tools: Mapping[str, str | None] | None = None,
        goal: str | None = None,
        compiled: Mapping[str, JSON] | None = None,
        label: Label = LITERAL,
    ) -> StoredPlan:
        """Store a plan with an id, by default its own, else one made from its title or goal.

        A plan of dependencies is stored as a JSON plan with the id in it; a plan in text order as its
        `text` in its `syntax`, with all comments, or formatted as LTP text. With `replaces`
        an existing plan gets a new version, unless nothing changed; if its file was edited, that is
        recorded as a version first. `params` are the parameters of the plan (by default those of the
        previous version that it still reads), `tools` the hashes of the declarations of the tools that it
        calls, `goal` its goal, `compiled` data from its compiler, `label` that of what its author had
        read, under a policy. Raises CallsheetError: PLN001, PLN003 for an id that is taken unless it
        `replaces`, PLN004, PLN022 for a parameter that the plan never reads.
        """
        wanted("plan", plan, Plan, "the steps of a plan (its .ir)")
        if goal is not None:
            wanted("goal", goal, str, "a text")
        given = plan_id or plan.id
        if given is not None:
            check_plan_id(given)
        given_params = None if params is None else fitted(params, plan)
        with self._plans.writable():
            known = self.ids()
            name = new_plan_id(plan.title or plan.goal or "", known) if given is None else given
            if name in known and not replaces:
                raise taken(name, "use another id, or replace it: --replace")
            spelling, content = _written(plan, name, text, syntax)
            before = self._record_edits(name) if name in known else None
            record = VersionRecord(
                name,
                1 if before is None else before.version + 1,
                self._clock(),
                spelling,
                content,
                hash_of(plan),
                _without_surrogates(goal or (None if before is None else before.goal)),
                _still_read(before, plan) if given_params is None else given_params,
                dict.fromkeys(called_names(plan)) if tools is None else dict(wanted_names("tools", tools)),
                None if compiled is None else wanted_names("compiled", compiled),
                label=None if label == LITERAL else str(label),
            )
            self._put(name, record, is_new=before is None or not record.has_same_content(before))
            return self._load(name)

    def _put(self, name: str, record: VersionRecord, *, is_new: bool) -> None:
        """Write the text of a version to the plan's file and, if it is new, the record of the version."""
        self._plans.write(name, record.syntax, record.text)
        if is_new:
            self._versions.write(name, record)

    def _record_edits(self, name: str) -> VersionRecord | None:
        """The newest version; if the file has been edited and is a plan, a new version with its text."""
        stored = self._load(name)
        newest, plan = stored.record, stored.result.plan
        if plan is None or not (newest is None or stored.is_edited):
            return newest
        record = VersionRecord(
            name,
            1 if newest is None else newest.version + 1,
            self._clock(),
            stored.syntax,
            stored.text,
            hash_of(plan),
            None if newest is None else newest.goal,
            _still_read(newest, plan),
            {tool: stored.tools.get(tool) for tool in called_names(plan)},
            None,
            is_by_hand=True,
            label=None if newest is None else newest.label,
        )
        self._versions.write(name, record)
        return record

    def settled(self, text: str) -> tuple[VersionRecord, ...]:
        """All versions of a plan, after recording an edited file as a version; raises as `save` does."""
        with self._plans.writable():
            plan_id = self.find(text)
            self._record_edits(plan_id)
            return self._versions.all(plan_id)

    def take_in(self, plans: Mapping[str, tuple[VersionRecord, ...]]) -> list[Imported]:
        """Import versions by id, all of them or none; existing versions are kept.

        Raises CallsheetError: PLN027 if a different plan has the id, PLN004.
        """
        taken: list[Imported] = []
        with self._plans.writable():
            known = self.ids()
            stored = {name: self._versions.all(name) if name in known else () for name in plans}
            for name, records in plans.items():
                self._require_same(name, records, stored[name], is_known=name in known)
            for name, records in plans.items():
                new = records[len(stored[name]) :]
                if new:
                    self._put(name, records[-1], is_new=False)
                for record in new:
                    self._versions.write(name, record)
                taken.append(Imported(name, len(new), max(len(records), len(stored[name]))))
        return taken

    def _require_same(
        self,
        name: str,
        records: tuple[VersionRecord, ...],
        stored: tuple[VersionRecord, ...],
        *,
        is_known: bool,
    ) -> None:
        """Refuse versions that do not continue those in this library."""
        if not is_known:
            return
        for one, other in zip(stored, records, strict=False):
            if replace(one, id=other.id) != other:
                raise another(name, f"version {one.version} differs")
        if not stored:
            raise another(name, "its file was added by hand and has no versions")
        if len(records) > len(stored) and self._load(name).is_edited:
            raise another(name, f"its file has changed since version {stored[-1].version}")

    def delete(self, text: str) -> str:
        """Delete the plan with an id or a prefix of one and all its versions; its runs are kept.

        Returns its id.
        """
        with self._plans.writable():
            name = self.find(text)
            self._plans.remove(name)
            self._versions.remove(name)
        return name

    def withdraw(self, stored: StoredPlan) -> None:
        """Delete a plan as it was saved, unless it has been changed, replaced or deleted since."""
        with self._plans.writable():
            if stored.id not in self.ids():
                return
            there = self._load(stored.id)
            if there.record == stored.record and not there.is_edited:
                self._plans.remove(stored.id)
                self._versions.remove(stored.id)

    def rename(self, old: str, new: str) -> StoredPlan:
        """Rename the plan with an id or a prefix of one; raises as `save` does.

        The text of a plan of dependencies contains its id, so it becomes a new version.
        """
        check_plan_id(new)
        with self._plans.writable():
            stored = self._load(old)
            if stored.id == new:
                return stored
            if new in self.ids():
                raise taken(new, "use another id, or delete that plan first")
            self._versions.move(stored.id, new)
            if stored.syntax is Syntax.DAG:
                text = format_as(Syntax.DAG, replace(stored.require(), id=new))
                self._plans.replace(stored.id, new, stored.syntax, text)
                self._record_edits(new)
            else:
                self._plans.move(stored.id, new, stored.syntax)
            return self._load(new)


def _written(plan: Plan, name: str, text: str | None, syntax: Syntax | None) -> tuple[Syntax, str]:
    """The syntax and the text in which a plan is stored."""
    if plan.order is Order.DAG:
        return Syntax.DAG, format_as(Syntax.DAG, replace(plan, id=name))
    if text is not None and syntax is not None and syntax is not Syntax.DAG:
        return syntax, text if text.endswith("\n") else f"{text}\n"
    return Syntax.LTP, format_as(Syntax.LTP, plan)


def _still_read(before: VersionRecord | None, plan: Plan) -> tuple[Param, ...]:
    """The parameters of the previous version that the plan still reads."""
    params: list[Param] = []
    for param in () if before is None else before.params:
        try:
            params += fitted([param], plan)
        except CallsheetError:
            continue
    return tuple(params)


def _number(text: str, number: str) -> int:
    """The version number typed after the @."""
    if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number)):
        raise CallsheetError.single(
            "PLN021", f"{text[:80]!a} is not a version of a plan", help="write ID@N, such as triage@3"
        )
    return int(number)


def _without_surrogates(text: str | None) -> str | None:
    """The text with lone surrogates replaced, as UTF-8 cannot encode them."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


_BELOW = "plans"


def open_library(folder: Path | None = None) -> PlanLibrary:
    """The library in a folder; by default that of $CALLSHEET_PLANS, of $CALLSHEET_STORE, or the user's.

    Raises CallsheetError: CFG230 for a bad address, CFG231 if the PostgreSQL driver is missing.
    """
    address = None if folder is not None or os.environ.get(VARIABLE) else shared_address()
    if address is None:
        return PlanLibrary(folder)
    return PlanLibrary(files=SharedFiles(open_database(address), _BELOW))


def library_at(address: str) -> PlanLibrary | None:
    """The library with this address, which `PlanLibrary.address` told; None for a store that is not ours.

    Raises CallsheetError as `open_library`.
    """
    if os.path.isabs(address):
        return PlanLibrary(address)
    library = open_library()
    return library if library.address == address else None


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
