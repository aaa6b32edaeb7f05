"""`callsheet compile` and `compare-react`: plans from goals, and what they cost beside an agent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import (
    is_terminal,
    print_diagnostics,
    print_json,
    print_text,
    to_stderr,
    writing,
)
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.api.compiling import Compiled, CompileFailed
    from callsheet.apps.comparison import AttemptTotals
    from callsheet.apps.compiling import CompileOutcome, LibraryMatch
    from callsheet.apps.setup import Setup
    from callsheet.authoring.compiler.request import Accounting


_REJECTED = ".rejected"
"""The suffix of the file for a model answer that is not a plan."""


@click.command("compile")
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--context", default="", metavar="TEXT", help="Additional data about the goal for the model.")
@options.output("Write the plan to FILE.", "--out", "--output", "out", kind=options.PATH)
@click.option(
    "--as", "form",
    type=click.Choice(["python", "ltp", "micro", "json"]), default="python",
    help="The form of the plan; default: a Python function.",
)  # fmt: skip
@click.option("--prompt", "only_prompt", is_flag=True, help="Print the prompt for the model and stop.")
@click.option(
    "--no-library", is_flag=True, help="Ask the model even if the plan library has a plan for GOAL."
)
@click.option(
    "--save-as",
    metavar="ID",
    help="Save the plan in the plan library; an existing ID gets a new version.",
)
@options.plans_folder
@options.policy_if_any
@options.as_json
def compile_goal(**given: Any) -> int:
    """Compile GOAL into a plan, check it against the available tools, and print it. Nothing is executed.

    If the plan library has a plan for the same goal, that plan is printed and no model is asked. For a plan
    of a similar goal you are asked whether to use it. Otherwise the model is asked once, and once more if its
    plan has errors.

    \b
    Examples:
      callsheet compile "Summarize the open issues" --mcp-config mcp.json
      callsheet compile "Greet Ada" --tools tools.py --out greet.py
    """
    return compile_and_print(**given)


def compile_and_print(  # noqa: PLR0913 - an argument for each option
    *,
    goal: str,
    setup: Setup,
    context: str = "",
    out: Path | None = None,
    form: str = "python",
    only_prompt: bool = False,
    no_library: bool = False,
    save_as: str | None = None,
    plans_folder: Path | None = None,
    policy: str = "",
    as_json: bool = False,
) -> int:
    """Compile a goal as the command does, whose options these are; its exit status."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.compiling import (  # noqa: PLC0415 - as above
        GoalRequest,
        ProofTerms,
        compile_for_setup,
        prompt_of,
        save_compiled,
    )
    from callsheet.apps.operations.compiling import Compilation  # noqa: PLC0415 - as above
    from callsheet.authoring.compiler.request import PlanForm  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.library import check_plan_id, open_library  # noqa: PLC0415 - not for --help

    if save_as is not None:
        check_plan_id(save_as)
    if only_prompt:
        return _print_prompt(run_async(prompt_of(goal, context, setup, PlanForm(form))), as_json=as_json)
    plan_library = open_library(plans_folder)
    matches: list[LibraryMatch] = []

    def accept_match(match: LibraryMatch) -> bool:
        matches.append(match)
        return not as_json and _confirm_reuse(match)

    resolved_policy = options.resolve_policy(policy, setup)
    request = GoalRequest(
        goal=goal,
        context=context,
        form=PlanForm(form),
        library=None if no_library else plan_library,
        accept=accept_match,
        terms=None if resolved_policy is None else ProofTerms(resolved_policy, default_journal_path()),
    )
    outcome = run_async(compile_for_setup(request, setup, to_stderr))
    while not as_json and (answered := _answer_of_user(outcome, len(request.answers))):
        request = replace(request, answers={**request.answers, **answered})
        outcome = run_async(compile_for_setup(request, setup, to_stderr))
    if not as_json:
        print_diagnostics(outcome.tool_diagnostics, None)
        _print_compile(outcome, out)
    path = _write_plan(outcome, out) if as_json else None
    saved = None if save_as is None else save_compiled(save_as, goal, outcome, plan_library)
    if as_json:
        stored = {} if saved is None else {"saved": {"id": saved.id, "version": saved.version}}
        written = {} if path is None else {"path": str(path)}
        print_json(Compilation(goal, outcome, matches).to_json() | written | stored)
    elif saved is not None:
        to_stderr(f"saved as {saved.name}; run it with: callsheet run {saved.id}")
    return Exit.OK if outcome.text is not None else Exit.WRONG


_MOST_QUESTIONS = 5
"""The questions after which a model that still asks has failed."""


def _answer_of_user(outcome: CompileOutcome, before: int) -> dict[str, str]:
    """The model's question with the answer of the person at the terminal; empty if one is missing."""
    from callsheet.api.compiling import CompileFailed  # noqa: PLC0415 - not for --help

    result = outcome.result
    if not isinstance(result, CompileFailed) or not result.question or before >= _MOST_QUESTIONS:
        return {}
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return {}
    to_stderr(f"the model asks before it writes a plan:\n  {result.question}")
    answer = click.prompt("Answer (nothing to stop)", default="", show_default=False, err=True).strip()
    return {result.question: answer} if answer else {}


def _print_prompt(messages: list[dict[str, str]], *, as_json: bool) -> Exit:
    if as_json:
        print_json({"messages": messages})
    else:
        print_text("\n\n".join(message["content"] for message in messages))
        to_stderr("check the answer with: callsheet check -")
    return Exit.OK


def _confirm_reuse(match: LibraryMatch) -> bool:
    """Show a plan for a similar goal and ask whether to use it."""
    to_stderr(f"the plan library has a plan for a similar goal:\n  {match.description}\n{match.text}")
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        to_stderr(f"a new plan is compiled; to use the stored plan: callsheet run {match.id}")
        return False
    return click.confirm("Use it?", default=False, err=True)


def _print_compile(outcome: CompileOutcome, out: Path | None) -> None:
    """Print the plan on standard output or write it to `out`; messages go to standard error."""
    path = _write_plan(outcome, out)
    if outcome.from_library is not None:
        message = "for the same goal" if outcome.from_library.is_exact else "for a similar goal"
        to_stderr(
            f"found in the plan library {message}, no model was asked: {outcome.from_library.description}"
        )
    if outcome.result is not None:
        print_diagnostics(outcome.result.findings.diagnostics, outcome.result.findings.source)
    if outcome.text is None:
        assert outcome.result is not None
        if path is not None:
            to_stderr(f"the model's answer is in {path}")
        elif outcome.result.text.strip():
            to_stderr(f"the model's answer was:\n{outcome.result.text.rstrip()}")
    elif path is None:
        print_text(outcome.text.rstrip("\n"))
    else:
        to_stderr(f"written to {path}; draw it with: callsheet graph {path}")
    if outcome.result is not None:
        _print_effects(outcome.result)
        to_stderr(_usage_line(outcome.result.accounting))


def _print_effects(result: Compiled | CompileFailed) -> None:
    """Say what a new plan changes, and when, for a person to compare with the goal."""
    from callsheet.api.compiling import Compiled  # noqa: PLC0415 - not for --help

    if not isinstance(result, Compiled) or result.plan.ir.tree is None:
        return
    if not result.effects:
        to_stderr("the plan changes nothing: no call in it may change something")
        return
    to_stderr("what the plan changes when it runs:")
    for sentence in result.effects:
        to_stderr(f"  it {sentence}")
    if result.worlds:
        to_stderr("in each case:")
        for line in result.worlds.lines():
            to_stderr(f"  {line}")


def _write_plan(outcome: CompileOutcome, out: Path | None) -> Path | None:
    """Write the plan, or the rejected answer, and return the path; None if nothing is to be written."""
    if out is None:
        return None
    text = outcome.text
    if text is None:
        answer = outcome.result.text if outcome.result is not None else ""
        if not answer.strip():
            return None
        out, text = Path(f"{out}{_REJECTED}"), answer
    return write_plan_text(out, text)


def write_plan_text(out: Path, text: str) -> Path:
    """Write a plan. Raise CallsheetError (CFG014) if that fails, after printing the plan, not to lose it."""
    try:
        with writing(out):
            out.write_text(text, encoding="utf-8", newline="\n")
    except CallsheetError:
        to_stderr(text.rstrip())
        raise
    return out


def _usage_line(accounting: Accounting) -> str:
    """The model calls, tokens, time and cost of compiling, in one line."""
    from callsheet.machine.events import describe_remark  # noqa: PLC0415 - not for --help

    usage = accounting.usage
    calls = f"{accounting.calls} call{'s' if accounting.calls != 1 else ''}"
    parts = [
        f"{calls} of {accounting.model}" + (", the second one a repair" if accounting.repaired else ""),
        f"{usage.input_tokens:,} input tokens"
        + (f" ({usage.cached_tokens:,} from the cache)" if usage.cached_tokens else ""),
        f"{usage.output_tokens:,} output tokens",
        format_seconds(usage.seconds),
    ]
    if usage.cost:
        parts.append(f"{usage.cost:.4f} USD")
    return "; ".join([", ".join(parts), *map(describe_remark, accounting.remarks)])


@click.command("compare-react")
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--expect", metavar="TEXT", help="Count an answer as solved if it contains TEXT.")
@click.option(
    "--check",
    metavar="FILE.py:FUNCTION",
    help="A Python function that takes the answer and returns whether it is solved.",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=1,
    help="The number of attempts with each method; default: 1.",
)
@options.as_json
def compare_react(
    goal: str, setup: Setup, expect: str | None, check: str | None, times: int, as_json: bool
) -> int:
    """Solve GOAL with a compiled plan, with a ReAct loop, and with a ReAct loop that makes concurrent calls.

    All three really call the tools, with the same model and tools. The costs are shown in total and per
    solved goal. Without --expect and --check every answer counts as solved.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.comparison import (  # noqa: PLC0415 - as above
        compare_methods,
        total_costs,
    )
    from callsheet.apps.equipment import with_local_model  # noqa: PLC0415 - as above

    if expect is not None and check is not None:
        raise click.UsageError("--expect and --check cannot be combined")
    attempts_by_method = run_async(
        compare_methods(goal, with_local_model(setup, to_stderr), _solves(expect, check), times)
    )
    tallies = [total_costs(attempts) for attempts in attempts_by_method]
    if as_json:
        rows = [
            asdict(totals)
            | {"per_solved": None if totals.per_solved_goal is None else totals.per_solved_goal._asdict()}
            | {"attempts": [asdict(attempt) for attempt in attempts]}
            for totals, attempts in zip(tallies, attempts_by_method, strict=True)
        ]
        print_json({"goal": goal, "times": times, "ways": rows})
        return Exit.OK
    for totals in tallies:
        _print_compare_react(totals)
    print_text("")
    for line in _table(tallies):
        print_text(line)
    if expect is None and check is None:
        to_stderr(
            "every answer counts as solved: set a criterion with --expect TEXT or --check FILE.py:FUNCTION"
        )
    return Exit.OK


def _solves(expect: str | None, check: str | None) -> Callable[[str], bool]:
    if check is not None:
        from callsheet.ports.python_tools import load_function  # noqa: PLC0415 - only where one is named

        path, _, name = check.rpartition(":")
        function = load_function(Path(path), name) if path.endswith(".py") else None
        if function is None:
            raise click.UsageError(
                f"--check {check} is not a function of a Python file: write FILE.py:FUNCTION"
            )
        checker = function
        return lambda answer: bool(checker(answer))
    expected_text = (expect or "").casefold()
    return lambda answer: expected_text in answer.casefold()


def _print_compare_react(totals: AttemptTotals) -> None:
    print_text(f"{totals.name}: {_solved(totals)}")
    model_call_notes = [f"{totals.compiling} to compile the plan"] if totals.compiling else []
    model_call_notes += [f"{totals.repairs} of them repairs"] if totals.repairs else []
    model_call_notes += [f"{totals.replans} for new plans"] if totals.replans else []
    details = f" ({', '.join(model_call_notes)})" if model_call_notes else ""
    print_text(
        f"  model calls {totals.model_calls}{details}, tool calls {totals.calls},"
        f" {format_seconds(totals.seconds)}"
    )
    print_text(
        f"  tokens: input {totals.input_tokens:,} ({totals.fresh_tokens:,} fresh,"
        f" {totals.cached_tokens:,} cached), output {totals.output_tokens:,}"
    )
    print_text(f"  {'error' if totals.error else 'answer'}: {preview(totals.error or totals.answer, 200)}")


def _solved(totals: AttemptTotals) -> str:
    if totals.times == 1:
        return "solved" if totals.solved else "NOT solved"
    return f"solved {totals.solved} of {totals.times} times"


def _table(all_totals: Sequence[AttemptTotals]) -> list[str]:
    """The cost of a solved goal with each method, failed attempts included."""
    header = ("per solved goal", "tokens, cold", "tokens, warm", "model calls", "tool calls", "time")
    rows = [header, *(_row(totals) for totals in all_totals)]
    widths = [max(len(row[n]) for row in rows if n < len(row)) for n in range(len(header))]
    return [
        "  ".join(cell.rjust(width) if n else cell.ljust(width) for n, (cell, width) in enumerate(cells))
        for cells in (tuple(zip(row, widths, strict=False)) for row in rows)
    ]


def _row(totals: AttemptTotals) -> tuple[str, ...]:
    each = totals.per_solved_goal
    if each is None:
        return (totals.name, "not solved")
    counts = (each.tokens_cold, each.tokens_warm)
    calls = (each.model_calls, each.calls)
    return (
        totals.name,
        *(f"{n:,.0f}" for n in counts),
        *(f"{n:.3g}" for n in calls),
        format_seconds(each.seconds),
    )
