"""The files of the plans in a library: one per plan, named by its id, with a suffix for its syntax.

In: ids, texts. Out: file names and texts; CallsheetError (PLN004) for files that cannot be used. Other files
beside the plans are ignored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.store.library.errors import broken
from callsheet.store.library.files import Files, FolderFiles
from callsheet.store.library.ids import check_plan_id
from callsheet.store.library.params import Param
from callsheet.store.library.stored import StoredPlan

_SUFFIXES = {Syntax.DAG: ".json", Syntax.LTP: ".ltp", Syntax.MICRO: ".micro"}
_SYNTAXES = {suffix: syntax for syntax, suffix in _SUFFIXES.items()}

_STATE = "_state"


class PlanFiles:
    """The plans among some files. Except in `readable` and `writable`, failures of the files are OSError."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @contextmanager
    def writable(self) -> Generator[None]:
        """Hold the lock of the files; raises CallsheetError (PLN004) where they cannot be changed."""
        try:
            with self._files.locked():
                yield
        except OSError as error:
            raise self._unusable("changed", error) from error

    @contextmanager
    def readable(self) -> Generator[None]:
        """Raises CallsheetError (PLN004) where the files cannot be read."""
        try:
            yield
        except OSError as error:
            raise self._unusable("read", error) from error

    def entries(self) -> Iterator[tuple[str, str, Syntax]]:
        """The files that are plans: id, file name, syntax."""
        for name in self._files.names():
            stem, dot, suffix = name.rpartition(".")
            syntax = _SYNTAXES.get(dot + suffix)
            if syntax is None or (stem.endswith(_STATE) and self._is_state(name, syntax)):
                continue
            try:
                yield check_plan_id(stem), name, syntax
            except CallsheetError:
                continue  # not a plan

    def _is_state(self, name: str, syntax: Syntax) -> bool:
        """Whether a file has the state of a run (`ID_state.json`), and not a plan."""
        if syntax is not Syntax.DAG:
            return False
        try:
            data = read_json(self._files.read(name).decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError, NotJson):
            return False
        return isinstance(data, dict) and {"plan_id", "completed_steps"} <= data.keys()  # pyright: ignore[reportUnknownMemberType]

    def place(self, plan_id: str) -> str:
        """The location of a plan for messages, as a name without a suffix."""
        return self._files.place(plan_id)

    def read(self, plan_id: str, params: Iterable[Param] = ()) -> StoredPlan:
        """The plan in its file; in Micro-CLI a bare word may be one of the parameters.

        Raises CallsheetError (PLN004) if there is not exactly one file, or it is not UTF-8 text.
        """
        address = self._files.address
        with self.readable():
            files = [(name, syntax) for each, name, syntax in self.entries() if each == plan_id]
            if len(files) != 1:
                names = " and ".join(name for name, _ in files) or "nothing"
                raise broken(f"{address} has {names} for the plan {plan_id}", "keep only one of these files")
            ((name, syntax),) = files
            place = self._files.place(name)
            try:
                text = self._files.read(name).decode("utf-8-sig", "surrogatepass")
            except UnicodeDecodeError as error:
                raise broken(f"{place} is not UTF-8 text (byte {error.start})", "repair the file") from error
        variables = [param.name for param in params]
        return StoredPlan(plan_id, place, syntax, read_as(syntax, text, place, variables=variables))

    def write(self, plan_id: str, syntax: Syntax, text: str) -> None:
        """Write the file of a plan, and remove files of it in other syntaxes."""
        file = f"{plan_id}{_SUFFIXES[syntax]}"
        self._files.write(file, text)
        self._files.remove(other for other in self._names(plan_id) if other != file)

    def move(self, old: str, new: str, syntax: Syntax) -> None:
        """Rename the file of a plan."""
        suffix = _SUFFIXES[syntax]
        self._files.move(f"{old}{suffix}", f"{new}{suffix}")

    def replace(self, old: str, new: str, syntax: Syntax, text: str) -> None:
        """Write the file of a plan under a new id, and remove the old one."""
        suffix = _SUFFIXES[syntax]
        self._files.write(f"{new}{suffix}", text)
        self._files.remove([f"{old}{suffix}"])

    def remove(self, plan_id: str) -> None:
        """Delete the files of a plan."""
        self._files.remove(self._names(plan_id))

    def _names(self, plan_id: str) -> list[str]:
        return [name for each, name, _ in self.entries() if each == plan_id]

    def _unusable(self, use: str, error: OSError) -> CallsheetError:
        message = error.strerror or str(error)
        hint = "name another folder: --plans DIR"
        if not isinstance(self._files, FolderFiles):
            hint = "check that it runs and accepts your login, or name a folder: --plans DIR"
        return broken(f"the plans in {self._files.address} cannot be {use}: {message}", hint)
