"""`callsheet`, and `python -m callsheet`: the command line, which Ctrl-C ends quietly while it loads."""

from __future__ import annotations

import atexit
import gc
import signal

_YOUNG = 50_000
"""How many new objects the garbage collector waits for."""


def main() -> None:
    """Carry out the command line; this ends the process with its exit status.

    What is loaded stays: to look for cycles in it, again and again as it grows and once more at the end, is a
    sixth of the time of a short command.
    """
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored (nohup, &)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from callsheet.apps.cli.main import main as carry_out  # noqa: PLC0415 - what takes its time

    carry_out()


if __name__ == "__main__":
    main()
