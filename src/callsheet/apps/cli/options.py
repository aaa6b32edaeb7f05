"""Options that several commands share; related options are combined into one argument.

A group of options such as `tool_sources` passes a single argument (`setup`) to its command.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from callsheet.apps.cli.progress_mode import ProgressMode

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
    from callsheet.apps.setup import Setup
    from callsheet.frontends.spelling import Syntax
    from callsheet.ir import Plan
    from callsheet.policy.model import Policy

Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"

_ID = re.compile(r"(?!.*\.(?:ltp|micro|json|ya?ml)\Z)[a-z0-9][a-z0-9._-]*(?:@.*)?\Z", re.ASCII)
"""The syntax of a plan id: no slash, and no suffix of a plan file."""
_PATH = click.Path(path_type=Path)

as_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


def _syntax(_context: click.Context, _option: click.Parameter, value: str | None) -> Syntax | None:
    from callsheet.frontends.spelling import Syntax  # noqa: PLC0415 - not for --help

    return None if value is None else Syntax(value)


syntax = click.option(
    "--syntax",
    type=click.Choice(["ltp", "micro", "dag"]),
    callback=_syntax,
    help="The syntax of plans; default: from the suffix of the file (.ltp, .micro, .json, .yaml), otherwise "
    "from the text.",
)
variables = click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a variable of the plan; VALUE is JSON, otherwise text. May be repeated.",
)
secrets = click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME=WHERE",
    help="Set a secret variable from env:VARIABLE, file:PATH, or - for a prompt. It is encrypted in the "
    "journal and masked in output. May be repeated.",
)
no_secret_patterns = click.option(
    "--no-secret-patterns",
    "no_secret_patterns",
    is_flag=True,
    help="Encrypt and mask only declared secrets, not texts that look like credentials.",
)
show_secrets = click.option(
    "--show-secrets", "shows_secrets", is_flag=True, help="Do not mask secrets in the output."
)
progress = click.option(
    "--progress",
    type=click.Choice([str(stage) for stage in ProgressMode]),
    default=str(ProgressMode.AUTO),
    help="The progress display on standard error; auto: live on a terminal, else plain; none with --json.",
)
strict = click.option(
    "--strict", "is_strict", is_flag=True, help="Exit with status 1 if the run is done with failures."
)
waits = click.option(
    "--wait", "waits", is_flag=True, help="Wait for people to answer; default: stop with exit status 4."
)


def grouped(name: str, make: Callable[..., object], **options: Decorator) -> Decorator:
    """A decorator that passes `name=make(…)` to a command instead of the values of these options.

    The keywords are the names of the options, with which `make` is called.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_one(**values: Any) -> Any:
            group_values = {option: values.pop(option) for option in options}
            return command(**values, **{name: make(**group_values)})

        declared: Callable[..., Any] = with_one
        for option in reversed(options.values()):
            declared = option(declared)
        return declared

    return decorate


# ---------------------------------------------------------------- the plan


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A plan named on the command line: a file, `-`, or an id of the library in the folder.

    If `syntax` is set, the name is always that of a file.
    """

    plan: str
    syntax: Syntax | None
    plans_folder: Path | None = None

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, if it is valid. Raises CallsheetError (CFG012) if it cannot be read."""
        from callsheet.apps.cli.plan_input import read_plan  # noqa: PLC0415 - not for --help

        if self.syntax is None and _ID.match(self.plan):
            from callsheet.apps.cli.plan.resolve import read_named  # noqa: PLC0415 - as above

            return read_named(self.plan, self.plans_folder, variables)
        return read_plan(self.plan, syntax=self.syntax, variables=variables)


plans_folder = click.option(
    "--plans",
    "plans_folder",
    type=_PATH,
    metavar="DIR",
    help="The folder of the plan library; default: $CALLSHEET_PLANS, otherwise in the user's data folder.",
)
_plan_argument = click.argument("plan", metavar="PLAN")
plan = grouped("plan", NamedPlan, plan=_plan_argument, syntax=syntax, plans_folder=plans_folder)
"""The argument PLAN with `--syntax` and `--plans`, as `plan`."""
plan_file = grouped("plan", NamedPlan, plan=_plan_argument, syntax=syntax)
"""The argument PLAN with `--syntax`, as `plan`, for commands with another use of `--plans`."""


# ---------------------------------------------------------------- tools


def setup_from(
    tools_files: Iterable[Path] = (),
    mcp_configs: Iterable[Path] = (),
    workspace: Path | None = None,
    allow_private_hosts: Iterable[str] = (),
    allow_unsandboxed: bool = False,
    model: str = "",
    pinned: bool = False,
) -> Setup:
    """The setup that these options describe, based on the user's configuration file."""
    from callsheet.api.requirements import default_data  # noqa: PLC0415 - only where tools are opened
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.apps.setup import Setup  # noqa: PLC0415 - as above

    settings = load_settings()
    hosts = (*settings.fetch.allow_private_hosts, *allow_private_hosts)
    settings = replace(settings, fetch=replace(settings.fetch, allow_private_hosts=hosts))
    if allow_unsandboxed:
        settings = replace(settings, execution=replace(settings.execution, require="best-effort"))
    if pinned:
        settings = replace(settings, trust="pinned")
    return Setup(
        workspace=(workspace or Path()).absolute(),
        data=default_data(),
        tools_files=tuple(tools_files),
        mcp_configs=tuple(mcp_configs),
        settings=settings,
        model=resolve_model(model),
    )


def resolve_model(option: str) -> str:
    """The model of the option or of CALLSHEET_MODEL, with an absolute path if it is a file.

    Empty if neither is set; the configured model applies then.
    """
    from callsheet.ports.models.settings import named_model  # noqa: PLC0415 - as above

    model_name = named_model(option, os.environ)
    if model_name.endswith(".py"):
        raise click.UsageError(f"--model {model_name[:80]!r}: write FILE.py:FUNCTION")
    path, _, name = model_name.rpartition(":")
    return f"{os.path.abspath(path)}:{name}" if path.endswith(".py") else model_name


tools_files = click.option(
    "--tools",
    "tools_files",
    multiple=True,
    type=_PATH,
    metavar="FILE.py",
    help="A file whose Python functions are tools; may be repeated.",
)
mcp_configs = click.option(
    "--mcp-config",
    "mcp_configs",
    multiple=True,
    type=_PATH,
    metavar="FILE",
    help="A JSON file with MCP servers; may be repeated. Default: the conventional places, if needed.",
)
_workspace = click.option(
    "--workspace",
    type=_PATH,
    metavar="DIR",
    default=Path(),
    help="The folder of the file tools; default: the current folder.",
)
_private_hosts = click.option(
    "--allow-private-hosts",
    multiple=True,
    metavar="HOST",
    help="Allow fetching pages from this private host, address or network, or * for all; may be repeated.",
)
_pinned = click.option(
    "--pinned", is_flag=True, help="Call only tools of servers that were approved with `callsheet trust`."
)
_unsandboxed = click.option(
    "--allow-unsandboxed",
    is_flag=True,
    help="Allow code to run with resource limits only if no sandbox is available.",
)

model = click.option(
    "--model",
    default="",
    metavar="MODEL",
    help="The model: provider:model, the address of a server, or FILE.py:FUNCTION; default: "
    "$CALLSHEET_MODEL, otherwise [model] in config.toml.",
)
tool_sources = grouped(
    "setup",
    setup_from,
    tools_files=tools_files,
    mcp_configs=mcp_configs,
    workspace=_workspace,
    allow_private_hosts=_private_hosts,
    allow_unsandboxed=_unsandboxed,
    model=model,
    pinned=_pinned,
)
"""The sources and permissions of tools, and the model, as `setup`."""
planning_tools = grouped(
    "setup", setup_from, tools_files=tools_files, mcp_configs=mcp_configs, model=model, pinned=_pinned
)
"""The sources of tools and the model, as `setup`, for commands that call no tool."""
checked_tools = grouped("setup", setup_from, tools_files=tools_files, mcp_configs=mcp_configs, pinned=_pinned)
"""The sources of tools, as `setup`, for commands that call no tool and no model."""


policy_option = click.option(
    "--policy",
    required=True,
    metavar="POLICY",
    help="The policy: strict, workspace, open, or a file.",
)


policy_if_any = click.option(
    "--policy",
    default="",
    metavar="POLICY",
    help="The policy: strict, workspace, open, or a file; default: policy in config.toml, otherwise none.",
)


approved = click.option(
    "--approved",
    multiple=True,
    metavar="STEP",
    help="With --policy: the id of a step that you approve; may be repeated.",
)


def resolve_policy(option: str, setup: Setup, approved: Iterable[str] = ()) -> Policy | None:
    """The policy of the option, otherwise that of the configuration; None if neither is set.

    Raises CallsheetError (POL001 to POL006) for an invalid policy, click.UsageError for approved steps
    without a policy.
    """
    policy = option or setup.settings.policy
    if not policy:
        if tuple(approved):
            raise click.UsageError("--approved needs --policy")
        return None
    from callsheet.api.policies import load_policy  # noqa: PLC0415 - only under a policy

    return load_policy(policy)


def check_approved(plan: Plan, approved: Iterable[str]) -> None:
    """Raise click.UsageError for an approved step that the plan does not have."""
    from callsheet.diagnostics import did_you_mean  # noqa: PLC0415 - only where steps are approved

    ids = [step.id for step in plan.steps]
    for step_id in approved:
        if step_id not in ids:
            suggestions = did_you_mean(step_id, ids)
            meant = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
            raise click.UsageError(f"--approved: the plan has no step {step_id[:40]!r}{meant}")
