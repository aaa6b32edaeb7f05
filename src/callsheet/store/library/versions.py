"""The versions of plans as files: `.versions/ID/N.json` beside the plans, each written once.

In: ids that are safe already, records. Out: records; CallsheetError (PLN004, PLN021); OSError as the
system raises it. Who writes holds the lock of the library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.store.library.files import file_names, read_file, sync_folder, write_file
from callsheet.store.library.record import VersionRecord, layed_out

_FOLDER = ".versions"
_NAME = re.compile(r"([1-9][0-9]{0,8})\.json", re.ASCII)


class Versions:
    """The versions of the plans of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER

    def numbers(self, plan_id: str) -> list[int]:
        """The numbers of the versions of a plan, in order."""
        found = (_NAME.fullmatch(name) for name in file_names(self._folder / plan_id))
        return sorted(int(match[1]) for match in found if match is not None)

    def newest(self, plan_id: str) -> VersionRecord | None:
        """The newest version of a plan; None for one without any."""
        numbers = self.numbers(plan_id)
        return self.read(plan_id, numbers[-1]) if numbers else None

    def all(self, plan_id: str) -> tuple[VersionRecord, ...]:
        """All versions of a plan, in order."""
        return tuple(self.read(plan_id, number) for number in self.numbers(plan_id))

    def path(self, plan_id: str, number: int) -> Path:
        """The file of a version."""
        return self._folder / plan_id / f"{number}.json"

    def read(self, plan_id: str, number: int) -> VersionRecord:
        """One version; raises CallsheetError: PLN021 where there is none, PLN004 where it is damaged."""
        path = self.path(plan_id, number)
        try:
            return VersionRecord.from_json(json.loads(read_file(path).decode("utf-8", "surrogatepass")))
        except FileNotFoundError:
            raise _no_such(plan_id, number, self.numbers(plan_id)) from None
        except (ValueError, RecursionError, CallsheetError) as error:
            raise CallsheetError.single(
                "PLN004",
                f"{path} cannot be used: {error}",
                help="put the file back as it was, or remove it: the version is lost then",
            ) from error

    def write(self, plan_id: str, record: VersionRecord) -> None:
        """Add a version."""
        path = self.path(plan_id, record.version)
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
            sync_folder(self._folder)
        write_file(path, layed_out(record.to_json()))

    def remove(self, plan_id: str) -> None:
        """Remove all versions of a plan."""
        if (self._folder / plan_id).exists():
            shutil.rmtree(self._folder / plan_id)
            sync_folder(self._folder)

    def move(self, old: str, new: str) -> None:
        """Give the versions of a plan to another id, which has none."""
        if (self._folder / old).exists():
            self.remove(new)  # of a plan that somebody has taken out by hand
            os.replace(self._folder / old, self._folder / new)
            sync_folder(self._folder)


def _no_such(plan_id: str, number: int, known: list[int]) -> CallsheetError:
    if not known:
        message, way_out = f"the plan {plan_id} has no versions", "saving it again makes the first one"
    else:
        message = f"the plan {plan_id} has no version {number}"
        way_out = f"it has 1 to {known[-1]}; `callsheet plan list --versions` shows them"
    return CallsheetError.single("PLN021", message, help=way_out)
