"""`callsheet test` and `callsheet record`: tests of plans, and cases made of runs."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import output_format, print_json, print_report, print_text, to_stderr
from callsheet.apps.rendering.annotations import Checked, Finding, Format, rendered
from callsheet.apps.rendering.values import without_controls
from callsheet.diagnostics import CallsheetError, Severity

if TYPE_CHECKING:
    from callsheet.api.plan import Plan
    from callsheet.apps.operations.printed_rows import (
        CaseResultRow,
        CoverageRow,
        CoveredRow,
        TestedCases,
    )
    from callsheet.apps.operations.printed_rows import RecordedCase as WrittenCase
    from callsheet.apps.setup import Setup
    from callsheet.apps.toolbox import DeclaredTools
    from callsheet.ports.tools import ToolSpec
    from callsheet.testing.cassette import RecordedCase
    from callsheet.testing.coverage import Coverage, Part
    from callsheet.testing.suite import CaseResult, FileResult

FAILED = "TST002"
"""The code of a case that fails."""
_MOST_MISSED = 20


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("-k", "only", metavar="TEXT", help="Run only the cases whose name contains TEXT.")
@click.option("--cover", is_flag=True, help="Report which steps, branches, items and failures were covered.")
@click.option(
    "--min-cover",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Fail if less of a plan is covered; implies --cover.",
)
@click.option("--if-any", is_flag=True, help="Succeed where there are no cases, as in a hook that all use.")
@options.policy_option
@options.checked_tools
@output_format
def test(
    paths: tuple[Path, ...],
    only: str | None,
    cover: bool,
    min_cover: float | None,
    if_any: bool,
    policy: str,
    setup: Setup,
    shape: Format,
) -> int:
    """Run the cases in files NAME.test.toml beside plans: at PATH, a file or folder, else below this folder.

    A case runs in memory and in virtual time: fakes answer all calls, and no server is started. The
    declarations of tools come from --tools, callsheet.lock and the project. A case is under --policy, else
    that of its file or of its recorded run, else that of the project, as `run` is. The exit status
    is 1 if a case fails or too little is covered, and 2 if there is no case at a PATH or a file is unusable.

    \b
    Examples:
      callsheet test
      callsheet test plans -k urgent --cover
      callsheet test --min-cover 90 --format junit > report.xml
    """
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - not for --help
    from callsheet.testing.case import ENDING, read_cases  # noqa: PLC0415 - as above
    from callsheet.testing.suite import case_files, run_file  # noqa: PLC0415 - as above

    began = time.monotonic()
    found: dict[Path, None] = {}
    for path in paths or (Path(),):
        there = case_files(path)
        if not there and not (if_any and path.is_dir()):
            place = "here" if path == Path() else f"in {path}"
            what = f"there is no file *{ENDING} {place}" if path.is_dir() else f"there is no {path}"
            help_ = f"write cases into NAME{ENDING} beside a plan, or make one of a run: callsheet record RUN"
            raise CallsheetError.single("TST001", what, help=help_)
        found |= dict.fromkeys(there)
    files = [read_cases(path) for path in found]
    declared, shows = DeclaredTools(setup), shape is Format.TEXT
    named = options.resolve_policy(policy, setup)
    ways = {"policy": named} if policy else {"default": named}
    results: list[FileResult] = []
    for file in files:
        head = [f"{os.path.relpath(file.path)} "] if shows else []

        def tell(result: CaseResult, head: list[str] = head) -> None:
            if shows:
                click.echo((head.pop() if head else "") + ("." if result.passed else "F"), nl=False)

        def known(plan: Plan) -> Sequence[ToolSpec]:
            return _declarations(plan, declared)

        results.append(run_file(file, known, only=only, tell=tell, **ways))
        if shows and not head:
            click.echo()
    count = sum(len(each.results) for each in results)
    if files and not count:
        raise CallsheetError.single("TST001", f"no case has {only!r} in its name", help="leave out -k")
    failed = sum(not one.passed for each in results for one in each.results)
    coverages = _coverages(results) if cover or min_cover is not None else []
    low = [one for one in coverages if min_cover is not None and one.percent < min_cover]
    match shape:
        case Format.TEXT:
            _print_failures(results)
            for one in coverages:
                _print_coverage(one)
            for one in low:
                click.echo(f"{_name(one)}: {one.percent:.0f} % is less than {min_cover:g} %")
            took = time.monotonic() - began
            passed = f"{count - failed} passed" + (f", {failed} failed" if failed else "")
            click.echo(f"{count} case{'' if count == 1 else 's'}: {passed} in {took:.2f} s{_under(results)}")
        case Format.JSON:
            print_json(_json(results, coverages, ok=not failed and not low))
        case Format.GITHUB | Format.GITLAB | Format.SARIF | Format.JUNIT:
            print_report(rendered(shape, [*_checked(results), *map(_as_checked, low)]))
    return Exit.FAILED if failed or low else Exit.OK


def _under(results: Sequence[FileResult]) -> str:
    """Under which policies the cases were, in words; empty if under none."""
    counts = Counter(one.policy for each in results for one in each.results)
    without = counts.pop(None, 0)
    if not counts:
        return ""
    names = ", ".join(without_controls(str(name)) for name in counts)
    word = "policy" if len(counts) == 1 else "policies"
    return f", under the {word} {names}" + (f" ({without} under none)" if without else "")


def _declarations(plan: Plan, declared: DeclaredTools) -> list[ToolSpec]:
    """The declarations of the tools that a plan calls, as far as they are known without a server."""
    from dataclasses import replace  # noqa: PLC0415 - a name of this function only

    registry, _, _ = declared.tools_for(plan.ir, asks_servers=False)
    names = dict.fromkeys(step.call.tool for step in plan.steps if step.call is not None)
    tools = ((name, registry.get(name)) for name in names)
    return [replace(tool.spec, name=name) for name, tool in tools if tool is not None]


def _print_failures(results: Sequence[FileResult]) -> None:
    for each in results:
        for one in each.results:
            if one.passed:
                continue
            click.echo(f"\nFAILED {os.path.relpath(each.file.path)}:{one.case.line}: {one.case.name}")
            for difference in one.differences:
                line = each.line(difference)
                place = f"{os.path.relpath(each.file.plan)}:{line}: " if line else ""
                first, *rest = difference.text.splitlines() or [""]
                print_text(f"  {place}{first}")
                for further in rest:
                    print_text(f"  {' ' * len(place)}{further}")
    if any(not one.passed for each in results for one in each.results):
        click.echo()


def _coverages(results: Sequence[FileResult]) -> list[Coverage]:
    """The coverage of each plan, by the cases of all files that test it."""
    from callsheet.testing.suite import plan_coverage  # noqa: PLC0415 - only where it is wanted

    plans: dict[Path, list[FileResult]] = {}
    for each in results:
        plans.setdefault(each.file.plan.resolve(), []).append(each)
    return [plan_coverage(members) for members in plans.values()]


def _name(coverage: Coverage) -> str:
    return os.path.relpath(coverage.plan.path or "plan")


def _print_coverage(coverage: Coverage) -> None:
    from callsheet.testing.coverage import Part  # noqa: PLC0415 - as above

    counts = ((part, *coverage.count(part)) for part in Part)
    parts = ", ".join(f"{part} {met} of {of}" for part, met, of in counts if of)
    click.echo(f"{_name(coverage)}: {coverage.percent:.0f} % covered ({parts})")
    for point in coverage.missed[:_MOST_MISSED]:
        click.echo(f"  line {coverage.line_of(point)}: not tested: {point.words}")
    more = len(coverage.missed) - _MOST_MISSED
    if more > 0:
        click.echo(f"  and {more} more; --format json lists all")


def _checked(results: Sequence[FileResult]) -> list[Checked]:
    checked: list[Checked] = []
    for each in results:
        for one in each.results:
            findings = tuple(
                Finding(
                    code=FAILED,
                    severity=Severity.ERROR,
                    message=f"{one.case.name}: {difference.text}",
                    path=os.path.relpath(each.file.plan if each.line(difference) else each.file.path),
                    line=each.line(difference) or one.case.line,
                )
                for difference in one.differences
            )
            group = os.path.relpath(each.file.path)
            checked.append(Checked(name=one.case.name, group=group, findings=findings, seconds=one.seconds))
    return checked


def _as_checked(low: Coverage) -> Checked:
    missed = "\n".join(f"line {low.line_of(point)}: not tested: {point.words}" for point in low.missed)
    text = f"{low.percent:.0f} % of the plan is covered\n{missed}"
    finding = Finding(code=FAILED, severity=Severity.ERROR, message=text, path=_name(low), line=1)
    return Checked(name="coverage", group=_name(low), findings=(finding,))


def _json(results: Sequence[FileResult], coverages: Sequence[Coverage], *, ok: bool) -> TestedCases:
    from callsheet.testing.coverage import Part  # noqa: PLC0415 - as above

    cases: list[CaseResultRow] = [
        {
            "file": str(each.file.path),
            "line": one.case.line,
            "plan": str(each.file.plan),
            "name": one.case.name,
            "passed": one.passed,
            "policy": one.policy,
            "seconds": round(one.seconds, 4),
            "differences": [
                {"text": d.text, "step": d.step or None, "line": each.line(d) or None}
                for d in one.differences
            ],
        }
        for each in results
        for one in each.results
    ]
    covered: list[CoverageRow] = [
        {
            "plan": _name(one),
            "percent": round(one.percent, 1),
            "steps": _count(one, Part.STEPS),
            "branches": _count(one, Part.BRANCHES),
            "items": _count(one, Part.ITEMS),
            "failures": _count(one, Part.FAILURES),
            "missed": [{"line": one.line_of(p), "step": p.mark.step, "what": p.words} for p in one.missed],
        }
        for one in coverages
    ]
    return {"version": 1, "ok": ok, "cases": cases, "coverage": covered}


def _count(coverage: Coverage, part: Part) -> CoveredRow:
    covered, of = coverage.count(part)
    return {"covered": covered, "of": of}


# ------------------------------------------------------------------ record


@click.command()
@click.argument("run_id", metavar="RUN")
@options.output(
    "The file of cases, NAME.test.toml; one that exists gets a further case. Default: beside the plan."
)
@click.option("--name", metavar="TEXT", help="The name of the case; default: the id of the run.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Leave out answers of tools that are larger than this.",
)
@options.checked_tools
@journals.journal_path
@options.as_json
def record(
    run_id: str,
    output: Path | None,
    name: str | None,
    max_bytes: int,
    setup: Setup,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Make a case for `callsheet test` of RUN: its inputs, the answers of its tools, and what it did.

    The answers are written into a cassette, a JSON file beside the case. Secrets are not in it: placeholders
    stand for them. The case is run at once, with the declarations of tools from --tools, callsheet.lock and
    the project as in `callsheet test`; the exit status is 1 if it does not pass. RUN is a run id, a unique
    prefix of one, or `last`.
    """
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - not for --help
    from callsheet.testing.case import ENDING, read_cases  # noqa: PLC0415 - not for --help
    from callsheet.testing.cassette import recorded_case  # noqa: PLC0415 - as above
    from callsheet.testing.suite import run_file  # noqa: PLC0415 - as above

    with journals.open_to_read(journal) as opened:
        full_id = opened.find_run(run_id).run_id
        made = recorded_case(opened, full_id, max_bytes)
    case_name = name or f"run {full_id}"
    file = output or _beside(made, full_id)
    if not file.name.endswith(ENDING):
        raise CallsheetError.single(
            "CFG014", f"{file} is no file of cases", help=f"its name ends in {ENDING}"
        )
    cassette = file.with_name(f"{file.name.removesuffix(ENDING)}.{_slug(case_name)}.cassette.json")
    if cassette.exists():
        raise CallsheetError.single(
            "CFG014", f"{cassette} exists already", help="give the case another --name"
        )
    head, plan = _head(file, made, case_name)
    beside = {cassette: made.cassette()} | ({} if plan is None else {plan: made.text})
    _append(file, f"{head}\n{made.case(case_name, cassette.name)}", beside)
    declared = DeclaredTools(setup)
    done = run_file(read_cases(file), lambda plan: _declarations(plan, declared), only=case_name)
    result = next(one for one in done.results if one.case.name == case_name)
    if as_json:
        written: WrittenCase = {
            "version": 1,
            "ok": result.passed,
            "file": str(file),
            "cassette": str(cassette),
            "plan": None if plan is None else str(plan),
            "calls": len(made.calls),
            "left_out": made.left_out,
            "differences": [difference.text for difference in result.differences],
        }
        print_json(written)
        return Exit.OK if result.passed else Exit.FAILED
    count = len(made.calls)
    click.echo(
        f"wrote the case {case_name!r} to {file}, and {count} answer{'' if count == 1 else 's'} to {cassette}"
    )
    if plan is not None:
        click.echo(f"wrote its plan to {plan}")
    for what in made.left_out:
        to_stderr(f"left out: {what}")
    if result.passed:
        tools = "".join(f" --tools {os.path.relpath(path)}" for path in setup.tools_files)
        click.echo(f"it passes: callsheet test {file}{tools}")
        return Exit.OK
    for difference in result.differences:
        to_stderr(f"it does not pass yet: {difference.text}")
    if not setup.tools_files:
        to_stderr(
            "help: give the files that declare the tools of the plan with --tools, as to callsheet test"
        )
    return Exit.FAILED


def _beside(made: RecordedCase, run_id: str) -> Path:
    from callsheet.testing.case import ENDING  # noqa: PLC0415 - as above

    if made.plan_file is None:
        return Path(f"{_slug(run_id)}{ENDING}")
    return made.plan_file.with_name(made.plan_file.stem + ENDING)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "case"


def _head(file: Path, made: RecordedCase, name: str) -> tuple[str, Path | None]:
    """The text before the case, and the file that its plan is written to, if it has none yet."""
    from callsheet.ir import plan_hash  # noqa: PLC0415 - as above
    from callsheet.testing.case import ENDING, plan_beside, read_cases  # noqa: PLC0415 - as above

    if file.exists():
        from callsheet.api.plan import Plan  # noqa: PLC0415 - as above

        there = read_cases(file)
        if plan_hash(Plan.load(there.plan).ir) != plan_hash(made.plan):
            raise CallsheetError.single(
                "TST003", f"the run is of another plan than {there.plan}", help="name another file with -o"
            )
        if any(case.name == name for case in there.cases):
            raise CallsheetError.single("TST003", f"{file} has a case {name!r} already", help="give --name")
        return "", None
    if made.plan_file is not None:
        beside = plan_beside(file)
        if beside is not None and beside.resolve() == made.plan_file.resolve():
            return "", None
        from callsheet.testing.cassette import toml  # noqa: PLC0415 - as above

        return f"plan = {toml(os.path.relpath(made.plan_file, file.parent))}\n", None
    plan = file.with_name(file.name.removesuffix(ENDING) + made.suffix)
    if plan.exists():
        raise CallsheetError.single("CFG014", f"{plan} exists already", help="name another file with -o")
    return "", plan


def _append(file: Path, case: str, beside: Mapping[Path, str]) -> None:
    """Write a case at the end of a file, and the files beside it; nothing if it does not fit there."""
    from callsheet.ir.strict_toml import TomlError, read_toml  # noqa: PLC0415 - as above

    try:
        read_toml((file.read_text("utf-8-sig") if file.exists() else "") + case)
    except TomlError as error:
        why, help_ = (
            f"no case can be added to {file}: {error}",
            "write its cases as [[cases]], or use -o FILE",
        )
        raise CallsheetError.single("TST003", why, help=help_) from error
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for path, text in beside.items():
            path.write_text(text, "utf-8")
        with file.open("a", encoding="utf-8") as out:
            out.write(case)
    except OSError as error:
        why = f"{error.filename or file} cannot be written: {error.strerror or error}"
        raise CallsheetError.single("CFG014", why, help="name another file with -o") from error
