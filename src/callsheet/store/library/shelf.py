"""The plan library: the plans of one folder by id, each a text that people can review.

In: an id, or the beginning of one that no other plan shares; plans. Out: stored plans, or
CallsheetError with a PLN code. Files rather than rows: a plan is changed in an editor and reviewed in a
pull request, and its folder may be one of a project.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.frontends.spelling import Syntax, format_as, read_as
from callsheet.frontends.values import ParseResult
from callsheet.ir import Order, Plan
from callsheet.store.library.files import file_names, locked, read_file, sync_folder, write_file
from callsheet.store.library.ids import check_plan_id, new_plan_id

_SUFFIXES = {Syntax.DAG: ".json", Syntax.LTP: ".ltp", Syntax.MICRO: ".micro"}
_SYNTAXES = {suffix: syntax for syntax, suffix in _SUFFIXES.items()}
VARIABLE = "CALLSHEET_PLANS"
"""Names the folder of the plan library in place of the one in the user's data folder."""


def default_plans_folder() -> Path:
    """The folder used when none is named: $CALLSHEET_PLANS, else in the user's data folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_data_dir  # noqa: PLC0415 - only where no folder is named

    return Path(user_data_dir("callsheet", appauthor=False)) / "plans"


class Listed(NamedTuple):
    """A plan as a list shows it; `steps` is None where its text has errors."""

    id: str
    path: Path
    syntax: Syntax
    title: str | None
    goal: str | None
    steps: int | None


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan of the library: its text as it stands in its file, and what was read from it."""

    id: str
    path: Path
    syntax: Syntax
    result: ParseResult

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.result.source.text

    def require(self) -> Plan:
        """The plan, under its id; raises CallsheetError with all that is wrong with its text."""
        return replace(self.result.require(), id=self.id)


class PlanLibrary:
    """The plans of one folder. The folder is made by the first plan that is saved."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = default_plans_folder() if folder is None else Path(folder)

    # ------------------------------------------------------------ looking

    def ids(self) -> tuple[str, ...]:
        """The ids of all plans, in order; raises CallsheetError (PLN004) for a folder that cannot be read."""
        with self._readable():
            return tuple(dict.fromkeys(plan_id for plan_id, _, _ in self._files()))

    def list(self) -> list[Listed]:
        """All plans, in the order of their ids; one whose text has errors is listed too."""
        return [self._listed(plan_id) for plan_id in self.ids()]

    def find(self, text: str) -> str:
        """The id itself, or the only id that begins so.

        Raises CallsheetError: PLN001 for what no id begins with, PLN002 where no plan or more than one does.
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
            raise _unknown(f"more than one plan begins with {text}: {shown}", "give more of the id")
        similar = did_you_mean(text, known)
        way_out = f"did you mean {' or '.join(similar)}?" if similar else "`callsheet plan list` lists them"
        raise _unknown(f"there is no plan {text} in {self.folder}", way_out)

    def load(self, text: str) -> StoredPlan:
        """The plan of an id or of the beginning of one, read as its suffix says.

        Its text may have errors: `StoredPlan.require` raises them. Raises CallsheetError: as `find`, and
        PLN004 for a file that cannot be read.
        """
        plan_id = self.find(text)
        with self._readable():
            files = [(path, syntax) for name, path, syntax in self._files() if name == plan_id]
            if len(files) != 1:
                names = " and ".join(path.name for path, _ in files) or "nothing"
                raise _broken(f"{self.folder} has {names} for the plan {plan_id}", "leave one file of them")
            ((path, syntax),) = files
            try:
                found = read_file(path).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise _broken(f"{path} is not UTF-8 text (byte {error.start})", "repair the file") from error
        return StoredPlan(plan_id, path, syntax, read_as(syntax, found, str(path)))

    # ------------------------------------------------------------ changing

    def save(
        self,
        plan: Plan,
        plan_id: str | None = None,
        *,
        text: str | None = None,
        syntax: Syntax | None = None,
        replaces: bool = False,
    ) -> StoredPlan:
        """Store a plan under an id, by default its own, else one made of its title or goal.

        A plan of dependencies is stored as canonical JSON with the id in it; of a plan of text order
        the `text` is kept, comments and all, with its `syntax`, or it is written as LTP text. Raises
        CallsheetError: PLN001, PLN003 for an id that is taken unless it `replaces`, PLN004.
        """
        given = plan_id or plan.id
        if given is not None:
            check_plan_id(given)
        with self._writable():
            known = self.ids()
            name = new_plan_id(plan.title or plan.goal or "", known) if given is None else given
            if name in known and not replaces:
                raise _taken(name, "take another id, or replace it: --replace")
            spelling, content = _written(plan, name, text, syntax)
            path = self.folder / f"{name}{_SUFFIXES[spelling]}"
            write_file(path, content)
            self._remove(other for other in self._paths(name) if other != path)
        return self.load(name)

    def delete(self, text: str) -> str:
        """Remove the plan of an id or of the beginning of one, and give its id; its runs stay."""
        with self._writable():
            name = self.find(text)
            self._remove(self._paths(name))
        return name

    def rename(self, old: str, new: str) -> StoredPlan:
        """Give the plan of an id, or of the beginning of one, another id; raises as `save` does.

        A plan of dependencies has its id in its text, which is then written anew.
        """
        check_plan_id(new)
        with self._writable():
            stored = self.load(old)
            if stored.id == new:
                return stored
            if new in self.ids():
                raise _taken(new, "take another id, or delete that plan first")
            path = self.folder / f"{new}{_SUFFIXES[stored.syntax]}"
            if stored.syntax is Syntax.DAG:
                write_file(path, format_as(Syntax.DAG, replace(stored.require(), id=new)))
                self._remove([stored.path])
            else:
                os.replace(stored.path, path)
                sync_folder(self.folder)
        return self.load(new)

    # ------------------------------------------------------------ files

    def _files(self) -> Iterator[tuple[str, Path, Syntax]]:
        """The files that are plans: id, path, spelling."""
        for name in file_names(self.folder):
            stem, dot, suffix = name.rpartition(".")
            syntax = _SYNTAXES.get(dot + suffix)
            if syntax is None:
                continue
            try:
                yield check_plan_id(stem), self.folder / name, syntax
            except CallsheetError:
                continue  # a file that is not ours

    def _paths(self, plan_id: str) -> list[Path]:
        return [path for name, path, _ in self._files() if name == plan_id]

    def _remove(self, paths: Iterator[Path] | list[Path]) -> None:
        for path in list(paths):
            path.unlink(missing_ok=True)
        sync_folder(self.folder)

    def _listed(self, plan_id: str) -> Listed:
        try:
            stored = self.load(plan_id)
        except CallsheetError:
            return Listed(plan_id, self.folder / plan_id, Syntax.DAG, None, None, None)
        plan = stored.result.plan
        part = plan or stored.result.partial
        count = None if plan is None else len(plan.steps)
        return Listed(plan_id, stored.path, stored.syntax, part.title, part.goal, count)

    @contextmanager
    def _writable(self) -> Generator[None]:
        try:
            with locked(self.folder):
                yield
        except OSError as error:
            said = error.strerror or str(error)
            raise _broken(
                f"the plans in {self.folder} cannot be changed: {said}", "name another folder: --plans DIR"
            ) from error

    @contextmanager
    def _readable(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            said = error.strerror or str(error)
            raise _broken(
                f"the plans in {self.folder} cannot be read: {said}", "name another folder: --plans DIR"
            ) from error


def _written(plan: Plan, name: str, text: str | None, syntax: Syntax | None) -> tuple[Syntax, str]:
    """The spelling and the text under which a plan is stored."""
    if plan.order is Order.DAG:
        return Syntax.DAG, format_as(Syntax.DAG, replace(plan, id=name))
    if text is not None and (syntax is Syntax.LTP or syntax is Syntax.MICRO):
        return syntax, text if text.endswith("\n") else f"{text}\n"
    return Syntax.LTP, format_as(Syntax.LTP, plan)


def _unknown(message: str, way_out: str) -> CallsheetError:
    return CallsheetError.single("PLN002", message, help=way_out)


def _taken(name: str, way_out: str) -> CallsheetError:
    return CallsheetError.single("PLN003", f"there is a plan {name} already", help=way_out)


def _broken(message: str, way_out: str) -> CallsheetError:
    return CallsheetError.single("PLN004", message, help=way_out)
