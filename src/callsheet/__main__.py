"""`callsheet`, and `python -m callsheet`: the command line, which Ctrl-C ends quietly while it loads."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from typing import Any

_YOUNG = 50_000
"""How many new objects the garbage collector waits for at first."""
_LOADER = "callsheet.ports.python_tools.load"
"""The module that executes the files of users; it is imported when there is one."""


class _BeforeUsersFiles:
    """An importer of nothing: what is there before files of users are executed is left out from then on."""

    def find_spec(self, name: str, *_: object) -> None:
        """Called for each module that is about to be loaded."""
        if name == _LOADER:
            atexit.unregister(gc.freeze)
            gc.freeze()


def main() -> None:
    """Carry out the command line; this ends the process with its exit status.

    What is loaded stays: to look for cycles in it, again and again as it grows and once more at the end, is a
    sixth of the time of a short command. A command that has made many objects may go on for days; from then
    on cycles are looked for as usual. At the end they are in what came with the tools of users, whose files
    get what was written to them when they are finalized.
    """
    usual = gc.get_threshold()

    def on_collection(phase: str, _info: dict[str, Any]) -> None:
        if phase == "stop":
            gc.callbacks.remove(on_collection)
            gc.set_threshold(*usual)

    gc.callbacks.append(on_collection)
    gc.set_threshold(_YOUNG, *usual[1:])
    atexit.register(gc.freeze)
    sys.meta_path.insert(0, _BeforeUsersFiles())
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored (nohup, &)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from callsheet.apps.cli.main import main as carry_out  # noqa: PLC0415 - what takes its time

    carry_out()


if __name__ == "__main__":
    main()
