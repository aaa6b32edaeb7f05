"""`callsheet diff` and `callsheet runs diff`: where two runs diverge, and what follows from it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.inspection.tolerance import ToleranceType
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.lineage import MAX_LINES, compared_json, diff_lines, origins_of
from callsheet.diagnostics import CallsheetError

_PLANS = (".ltp", ".micro", ".json", ".yaml", ".yml")

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.value_differences import Slower


def _reject_plan_files(*names: str) -> None:
    """Raise CallsheetError (CFG010) if all of these names are files of plans."""
    if all(Path(name).suffix in _PLANS and Path(name).is_file() for name in names):
        help_text = f"to compare plans: callsheet plan diff {shlex.join(names)}"
        raise CallsheetError.single("CFG010", f"{names[0]} is a file, not a run", help=help_text)


@click.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--all", "compare_all", is_flag=True, help="Show all differences, not only the first ones.")
@click.option("--times", "with_times", is_flag=True, help="Also show which steps became slower or faster.")
@click.option(
    "--noise",
    type=ToleranceType(),
    default="20%",
    show_default=True,
    help="The difference of times that is ignored, as a fraction of the longer one.",
)
@click.option("--exit-code", is_flag=True, help="Exit 1 if the runs differ.")
@journals.journal_path
@options.as_json
@without_gc
def diff_of_runs(
    old: str,
    new: str,
    compare_all: bool,
    with_times: bool,
    noise: float,
    exit_code: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Show where the runs A and B first diverge, and what follows from it.

    A and B are run ids, unique prefixes of them, or `last`. Steps are matched by id and visit, the remaining
    ones by tool and arguments. Times are ignored; --times compares them separately.

    \b
    Examples:
      callsheet diff monday tuesday
      callsheet diff monday last --times --noise 50%
    """
    from callsheet.api.explaining import diff_runs  # noqa: PLC0415 - imports the store

    _reject_plan_files(old, new)
    with journals.open_to_read(journal) as opened:
        difference = diff_runs(opened, old, new, None if compare_all or as_json else MAX_LINES)
        a, b, compared = difference.a, difference.b, difference.compared
        origins = origins_of(opened, a, b)
        time_differences = _times(opened, a, b, noise) if with_times else None
    with ignoring_broken_pipe():
        if as_json:
            times = (
                {}
                if time_differences is None
                else {"times": [difference._asdict() for difference in time_differences]}
            )
            print_json({**compared_json(difference, origins), **times})
        else:
            plans = "the same plan" if difference.is_same_plan else "different plans"
            print_text(f"A {a.run_id}, B {b.run_id}, {plans}")
            for name, origin in zip("AB", origins, strict=True):
                if origin is not None:
                    print_text(f"{name} is    {origin.describe()}")
            for line in diff_lines(compared):
                print_text(line)
            if time_differences is not None:
                _print_times(time_differences, noise)
    return Exit.FAILED if exit_code and not difference.is_equal else Exit.OK


def _times(journal: Journal, a: RunInfo, b: RunInfo, noise: float) -> list[Slower]:
    from callsheet.apps.cli.inspection.step_times import compare_step_times  # noqa: PLC0415 - imports the store

    return compare_step_times(journal, a, b, noise)


def _print_times(differences: list[Slower], noise: float) -> None:
    from callsheet.apps.cli.inspection.step_times import print_times  # noqa: PLC0415 - as above

    print_times(differences, noise)
