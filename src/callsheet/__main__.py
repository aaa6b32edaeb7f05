"""`callsheet`, and `python -m callsheet`: the command line, which Ctrl-C ends quietly while it loads."""

from __future__ import annotations

import signal


def main() -> None:
    """Carry out the command line; this ends the process with its exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored (nohup, &)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from callsheet.apps.cli.main import main as carry_out  # noqa: PLC0415 - what takes its time

    carry_out()


if __name__ == "__main__":
    main()
