"""The options of a run: the inputs of its plan, `callsheet run PLAN --repo a/b`, its limits, its engine.

Each input is an option with its type, its help and the words of its union, shown by `--help` behind PLAN and
completed by the shell. An option of the command itself goes before an input of the same name, for which there
is `--var name=value`. A secret input has none: what is typed there is seen by others, so there is `--secret`.

Others say how a run starts, and which engine carries it out, at which address.

`limits` passes the limits of a new run to a command, `changes` the changes to the limits of a resumed run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from callsheet import lazy
from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import NamedPlan
from callsheet.apps.cli.options import FiniteRange
from callsheet.diagnostics import CallsheetError
from callsheet.lazy import dataclass, deferred
from callsheet.machine.limits import MAX_WINDOW, SCHEDULES, Limits

if TYPE_CHECKING:
    from callsheet.apps.settings import Settings
    from callsheet.ir import types
    from callsheet.ir.tree import Input
    from callsheet.machine.budget import Refusal
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
else:
    types = deferred("callsheet.ir.types")


_OF_INPUT = "input_of_plan_"
"""Before the name of an input in the name of its parameter."""
_FOUND = "callsheet.inputs"


class PlanCommand(click.Command):
    """A command with the argument PLAN and `--var`, which takes the inputs of the plan as options too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters of the command, and the inputs of the plan, once it is known."""
        return [*super().get_params(ctx), *ctx.meta.get(_FOUND, ())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click; the plan is read first if there are options that the command does not have.

        Raises CallsheetError then for a plan with errors: nobody knows its inputs.
        """
        own = super().get_params(ctx)
        names = {name for one in own for name in (*one.opts, *one.secondary_opts)}
        unknown = [one for one in args if one.startswith("--") and one.partition("=")[0] not in names]
        only_shown = ctx.resilient_parsing or bool({"--help", "-h"} & set(args))
        if only_shown or unknown:
            inputs = _inputs(self._plan(ctx, args), only_shown=only_shown)
            ctx.meta[_FOUND] = [
                _option(one, names) for one in inputs if _name(one) not in names and not one.is_secret
            ]
            if not only_shown:
                self._refuse_secrets(ctx, unknown, inputs)
                self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_secrets(self, ctx: click.Context, unknown: list[str], inputs: Iterable[Input]) -> None:
        """Raise UsageError for a secret that is given in the command line, where others can read it."""
        given = {one.partition("=")[0] for one in unknown}
        for one in inputs:
            if one.is_secret and _name(one) in given:
                raise click.UsageError(
                    f"{_name(one)} is a secret: give it with --secret {one.name}=env:…", ctx
                )

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        """Raise UsageError for an input that is given twice: click would take the last one."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for one in ctx.meta[_FOUND]:
            if order.count(one) > 1:
                raise click.UsageError(f"{one.opts[0]} is given twice", ctx)

    def _plan(self, ctx: click.Context, args: list[str]) -> NamedPlan | None:
        """The plan that the command line names, as far as it can be read without knowing its inputs."""
        lenient = click.Context(
            self, ctx.parent, ctx.info_name, ignore_unknown_options=True, resilient_parsing=True
        )
        try:
            found, _, _ = self.make_parser(lenient).parse_args(list(args))
        except click.UsageError:
            return None
        plan = found.get("plan")
        if not isinstance(plan, str) or plan == "-" or plan.startswith("--"):
            return None
        return NamedPlan(plan, found.get("syntax"), found.get("plans_folder"))

    def invoke(self, ctx: click.Context) -> Any:
        """As in click, with the values of the inputs as those of `--var`."""
        given = {name: ctx.params.pop(name) for name in list(ctx.params) if name.startswith(_OF_INPUT)}
        values = tuple(
            f"{name.removeprefix(_OF_INPUT)}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in given.items()
            if value is not None
        )
        ctx.params["variables"] = (*ctx.params["variables"], *values)
        return super().invoke(ctx)


def _inputs(plan: NamedPlan | None, *, only_shown: bool) -> tuple[Input, ...]:
    """The inputs of a plan; if they are only shown, none of one that has errors."""
    if plan is None:
        return ()
    try:
        read = plan.read().require()
    except (CallsheetError, OSError):
        if only_shown:
            return ()
        raise
    return () if read.tree is None else read.tree.inputs


def _name(one: Input) -> str:
    return f"--{one.name.replace('_', '-')}"


def _option(one: Input, taken: set[str]) -> click.Option:
    """The option of an input."""
    kind = one.type.of if isinstance(one.type, types.Maybe) else one.type
    name = _name(one)
    help_ = ". ".join(
        part for part in (one.help, "Required" if one.is_required and kind is one.type else "") if part
    )
    names = [f"{_OF_INPUT}{one.name}"]
    if kind is types.Basic.BOOL:
        opposite = f"--no-{name[2:]}"
        names.append(name if opposite in taken else f"{name}/{opposite}")
        return click.Option(names, default=None, help=help_)
    if isinstance(kind, types.OneOf) and all(isinstance(value, str) for value in kind.values):
        return click.Option([*names, name], type=click.Choice([str(v) for v in kind.values]), help=help_)
    return click.Option([*names, name], metavar=types.type_text(kind).upper(), help=help_)


_DEFAULTS = Limits()
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = lazy.pattern(r"(\d{1,15}(?:\.\d{1,15})?)([smhd]?)", re.ASCII)
_COUNT = lazy.pattern(r"(?:@?([A-Za-z_][A-Za-z0-9_]*)=)?(\d{1,18})", re.ASCII)


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _DURATION.fullmatch(str(value))
        if match is None:
            self.fail(
                f"{value!r} is not a duration; write seconds, or a number with s, m, h or d: 10m", param, ctx
            )
        return float(match[1]) * _UNITS[match[2]]


class _Count(click.ParamType[tuple[str | None, int]]):
    name = "count"

    def __init__(self, minimum: int = 0) -> None:
        self._least = minimum

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, int]:
        match = _COUNT.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a number of calls; write N, or TOOL=N for one tool", param, ctx)
        if int(match[2]) < self._least:
            self.fail(f"{match[2]} is not in the range x>={self._least}", param, ctx)
        return match[1], int(match[2])


_bounds = {
    "max_steps": click.option(
        "--max-steps", type=click.IntRange(1), metavar="N", help="The maximum number of executed steps."
    ),
    "max_calls": click.option(
        "--max-calls",
        type=_Count(),
        multiple=True,
        metavar="N|TOOL=N",
        help="The maximum number of calls, in total or of one tool; may be repeated.",
    ),
    "max_tokens": click.option(
        "--max-tokens", type=click.IntRange(0), metavar="N", help="The maximum number of tokens."
    ),
    "max_cost": click.option(
        "--max-cost", type=FiniteRange(0), metavar="X", help="The maximum cost of all calls."
    ),
    "max_seconds": click.option(
        "--max-time",
        "max_seconds",
        type=_Duration(),
        metavar="TIME",
        help="The maximum running time: 90 (seconds), 10m, 2h.",
    ),
    "replans_on_failure": click.option(
        "--replan",
        "replans_on_failure",
        type=click.IntRange(0),
        metavar="N",
        help="Ask a model up to N times for new steps when a JSON plan has failed; default: 0.",
    ),
    "schedule": click.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        help="When steps in text order start: each in its turn, or (auto) calls that only read earlier, if "
        f"this makes no observable difference; default: {_DEFAULTS.schedule}.",
    ),
    "max_concurrency": click.option(
        "--max-concurrency",
        type=_Count(minimum=1),
        multiple=True,
        metavar="N|TOOL=N",
        help="The maximum number of concurrent steps, in a dependency plan and with --schedule auto "
        f"(default: {_DEFAULTS.max_concurrency}), or of concurrent calls of one tool; may be repeated.",
    ),
    "no_guards": click.option(
        "--no-guards",
        is_flag=True,
        help="Remove all limits except those given by other options; for trusted plans.",
    ),
}
_pace = {
    "window": click.option(
        "--window",
        type=click.IntRange(1, MAX_WINDOW),
        help=f"The maximum number of concurrent items of a FOREACH; default: {_DEFAULTS.window}.",
    ),
    "retry_delay": click.option(
        "--retry-delay",
        type=FiniteRange(0, _DEFAULTS.max_retry_delay),
        help=f"The delay in seconds before a retry; default: {_DEFAULTS.retry_delay:g}.",
    ),
}


_Counts: TypeAlias = "tuple[tuple[str | None, int], ...]"


def _changes(
    *,
    max_calls: _Counts = (),
    max_concurrency: _Counts = (),
    no_guards: bool = False,
    **values: Any,
) -> Callable[[Limits], Limits]:
    """A function that applies the options to limits."""
    changed: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    for name, counts in (("max_calls", max_calls), ("max_concurrency", max_concurrency)):
        changed[f"{name}_by_tool"] = {tool.upper(): most for tool, most in counts if tool is not None}
        changed.update((name, most) for tool, most in counts if tool is None)

    def change(limits: Limits) -> Limits:
        return (limits.without_guards() if no_guards else limits).changed(changed)

    return change


def _limits(**values: Any) -> Limits:
    from callsheet.apps.projects import project_of, settings_of  # noqa: PLC0415 - imports the built-in tools

    return _changes(**values)(settings_of(project_of(Path.cwd())).limits)


limits = options.grouped("limits", _limits, **_bounds, **_pace)
"""The limits of a new run, as `limits`."""
changes = options.grouped("changes", _changes, **_bounds)
"""The changes to the limits of a resumed run, as `changes`."""

_OPTIONS = {
    "max_steps": "--max-steps N",
    "max_calls": "--max-calls N",
    "max_tokens": "--max-tokens N",
    "max_cost": "--max-cost X",
    "max_seconds": "--max-time TIME",
}


def option_for_limit(refusal: Refusal) -> str:
    """The option, or the line of the configuration file, that sets the limit of a refusal.

    >>> from callsheet.machine import Refusal
    >>> option_for_limit(Refusal("max_calls_by_tool", 1, 1, "SEND"))
    '--max-calls SEND=N'
    >>> option_for_limit(Refusal("max_items", 5, 6))
    '[limits] max_items = N'
    """
    if refusal.budget == "max_calls_by_tool":
        return f"--max-calls {refusal.tool}=N"
    return _OPTIONS.get(refusal.budget, f"[limits] {refusal.budget} = N")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a run starts: its id, approvals, policy, state and tags."""

    run_id: str | None
    approve: tuple[str, ...]
    approval_timeout: tuple[str, ...]
    waits: bool
    accepts_changed_tools: bool
    policy: str
    approved: tuple[str, ...]
    state: Path | None
    tags: tuple[str, ...]


start = options.grouped(
    "start",
    StartOptions,
    run_id=click.option("--run-id", metavar="ID", help="The id of the run; default: a new one."),
    approve=click.option(
        "--approve",
        multiple=True,
        metavar="TOOL|STEP",
        help="Require approval of each call of this tool, or step; may be repeated.",
    ),
    approval_timeout=click.option(
        "--approval-timeout",
        multiple=True,
        metavar="TIME|TOOL=TIME",
        help="Deny a call that was not approved in this time, such as 12h or 3d; default: never.",
    ),
    waits=options.waits,
    accepts_changed_tools=click.option(
        "--accept-changed-tools",
        "accepts_changed_tools",
        is_flag=True,
        help="Run a plan of the library although declarations of its tools have changed since it was saved.",
    ),
    policy=click.option(
        "--policy",
        default="",
        metavar="POLICY",
        help="Verify the plan against this policy, and enforce it on each call: strict, workspace, open, or "
        "a file; default: policy in config.toml, otherwise none.",
    ),
    approved=options.approved,
    state=click.option(
        "--state",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        metavar="FILE",
        help="Continue from a state file (ID_state.json of another program): its completed steps are not "
        "executed again.",
    ),
    tags=click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME=TEXT",
        help="Tag the run; `callsheet runs` shows its tags and finds it by them. May be repeated.",
    ),
)
"""The options, as an argument `start`."""


TEMPORAL = "temporal"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The address of an engine on the command line; empty fields are taken from the configuration."""

    address: str
    namespace: str
    queue: str
    blobs: str

    @property
    def is_given(self) -> bool:
        """Whether any field is set."""
        return bool(self.address or self.namespace or self.queue or self.blobs)

    def apply_to(self, settings: TemporalSettings) -> TemporalSettings:
        """The settings, with the fields that are set replaced."""
        overrides = {
            "address": self.address,
            "namespace": self.namespace,
            "queue": self.queue,
            "blobs": self.blobs,
        }
        return replace(settings, **{name: value for name, value in overrides.items() if value})


places: dict[str, options.Decorator] = {
    "address": click.option(
        "--address", default="", metavar="HOST:PORT", help="The address of the Temporal server."
    ),
    "namespace": click.option(
        "--namespace", default="", metavar="NAME", help="The namespace of the Temporal server."
    ),
    "blobs": click.option(
        "--blobs",
        default="",
        metavar="PLACE",
        help="The storage of values of more than 64 KiB, shared by workers and clients: a folder, "
        "s3://BUCKET/PREFIX or postgresql://…; default: $CALLSHEET_STORE, otherwise beside the journal.",
    ),
}
"""The options for the address of a server and the storage of large values."""
_PLACES: dict[str, options.Decorator] = {
    "queue": click.option("--queue", default="", metavar="NAME", help="The task queue of the workers."),
    **places,
}
whereabouts = options.grouped("whereabouts", EngineAddress, **_PLACES)
"""The address of Temporal, as `whereabouts`."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that executes a run; with `detaches` the command does not wait for the end."""

    name: str
    whereabouts: EngineAddress
    detaches: bool

    def settings(self, configured: Settings) -> TemporalSettings | None:
        """The settings of Temporal, None for a local run. Raises CallsheetError (TMP001) and UsageError."""
        if self.name != TEMPORAL:
            if self.whereabouts.is_given or self.detaches:
                raise click.UsageError(
                    "--address, --namespace, --queue, --blobs and --detach need --engine temporal;"
                    " an input of the plan with such a name is given with --var, as --var queue=…"
                )
            return None
        require_extra()
        return self.whereabouts.apply_to(configured.temporal)


def _make_engine(kind: str, detaches: bool, **places: object) -> Engine:
    return Engine(kind, EngineAddress(**places), detaches)  # pyright: ignore[reportArgumentType]


engine = options.grouped(
    "engine",
    _make_engine,
    kind=click.option(
        "--engine",
        "kind",
        type=click.Choice(["local", TEMPORAL]),
        default="local",
        show_default=True,
        help="What executes the run: this process, or the workers of a Temporal server.",
    ),
    detaches=click.option(
        "--detach",
        "detaches",
        is_flag=True,
        help="With --engine temporal: start the run and do not wait for its end.",
    ),
    **_PLACES,
)
"""The engine that executes a run, as `engine`."""


def require_extra() -> None:
    """Raise CallsheetError (TMP001) if the package of Temporal is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    if find_spec("temporalio") is None:
        raise CallsheetError.single(
            "TMP001",
            "the Temporal engine needs temporalio, which is not installed",
            help="pip install 'callsheet[temporal]'",
        )
