"""Reads and writes the versions of plans: `.versions/ID/N.json` beside the plans, each written once.

In: validated ids, records. Out: records; CallsheetError (PLN004, PLN021); OSError from the files. Writers
must hold the lock of the library.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from callsheet.diagnostics import CallsheetError
from callsheet.store.library.files import Files
from callsheet.store.library.record import VersionRecord, layed_out

_FOLDER = ".versions"
_NAME = re.compile(r"([1-9][0-9]{0,8})\.json", re.ASCII)


class Versions:
    """The versions of the plans among some files."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def numbers(self, plan_id: str) -> list[int]:
        """The numbers of the versions of a plan, in order."""
        matches = (_NAME.fullmatch(name) for name in self._files.names(f"{_FOLDER}/{plan_id}"))
        return sorted(int(match[1]) for match in matches if match is not None)

    def newest(self, plan_id: str) -> VersionRecord | None:
        """The newest version of a plan; None if it has none."""
        numbers = self.numbers(plan_id)
        return self.read(plan_id, numbers[-1]) if numbers else None

    def all(self, plan_id: str) -> tuple[VersionRecord, ...]:
        """All versions of a plan, in order."""
        return tuple(self.read(plan_id, number) for number in self.numbers(plan_id))

    def place(self, plan_id: str, number: int) -> str:
        """The location of a version for messages."""
        return self._files.place(name_of(plan_id, number))

    def read(self, plan_id: str, number: int) -> VersionRecord:
        """One version; raises CallsheetError: PLN021 if there is none, PLN004 if it is damaged."""
        try:
            data = self._files.read(name_of(plan_id, number))
            record = VersionRecord.from_json(json.loads(data.decode("utf-8", "surrogatepass")))
            return replace(record, id=plan_id)  # the file of a renamed plan has the id of its save
        except FileNotFoundError:
            raise _no_such(plan_id, number, self.numbers(plan_id)) from None
        except (ValueError, RecursionError, CallsheetError) as error:
            raise CallsheetError.single(
                "PLN004",
                f"{self.place(plan_id, number)} cannot be used: {error}",
                help="restore the file, or remove it, which loses the version",
            ) from error

    def write(self, plan_id: str, record: VersionRecord) -> None:
        """Add a version."""
        self._files.write(name_of(plan_id, record.version), layed_out(record.to_json()))

    def remove(self, plan_id: str) -> None:
        """Remove all versions of a plan."""
        self._files.remove_folder(f"{_FOLDER}/{plan_id}")

    def move(self, old: str, new: str) -> None:
        """Move the versions of a plan, if any, to another id; leftover versions of that id are removed."""
        if self.numbers(old):
            self.remove(new)
            self._files.move_folder(f"{_FOLDER}/{old}", f"{_FOLDER}/{new}")


def name_of(plan_id: str, number: int) -> str:
    """The file name of a version."""
    return f"{_FOLDER}/{plan_id}/{number}.json"


def _no_such(plan_id: str, number: int, known: list[int]) -> CallsheetError:
    if not known:
        message, hint = f"the plan {plan_id} has no versions", "saving it again makes the first one"
    else:
        message = f"the plan {plan_id} has no version {number}"
        hint = f"it has 1 to {known[-1]}; `callsheet plan list --versions` shows them"
    return CallsheetError.single("PLN021", message, help=hint)
