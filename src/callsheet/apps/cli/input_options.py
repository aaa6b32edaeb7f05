"""The inputs of a plan as options of the commands that take it: `callsheet run PLAN --repo a/b`.

Each input is an option with its type, its help and the words of its union, shown by `--help` behind PLAN and
completed by the shell. An option of the command itself goes before an input of the same name, for which there
is `--var name=value`. A secret input has none: what is typed there is seen by others, so there is `--secret`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli.plan_argument import NamedPlan
from callsheet.diagnostics import CallsheetError
from callsheet.lazy import deferred

if TYPE_CHECKING:
    from callsheet.ir import types
    from callsheet.ir.tree import Input
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
        """As in click; the plan is read first if there are options that the command does not have."""
        own = super().get_params(ctx)
        names = {name for one in own for name in (*one.opts, *one.secondary_opts)}
        unknown = [one for one in args if one.startswith("--") and one.partition("=")[0] not in names]
        if ctx.resilient_parsing or unknown or {"--help", "-h"} & set(args):
            inputs = _inputs(self._plan(ctx, args))
            ctx.meta[_FOUND] = [
                _option(one, names) for one in inputs if _name(one) not in names and not one.is_secret
            ]
        return super().parse_args(ctx, args)

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


def _inputs(plan: NamedPlan | None) -> tuple[Input, ...]:
    """The inputs of a plan; none of one that cannot be read, which the command itself tells."""
    if plan is None:
        return ()
    try:
        read = plan.read().plan
    except (CallsheetError, OSError):
        return ()
    return () if read is None or read.tree is None else read.tree.inputs


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
