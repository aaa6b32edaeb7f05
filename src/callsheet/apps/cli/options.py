"""Options and arguments that several commands share; related options are combined into one argument."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from callsheet.apps.cli.arguments import NamedPlan
from callsheet.apps.cli.output import is_terminal, to_stderr
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.files import seen_from_here
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.mcp.transports import HttpEndpoint
    from callsheet.apps.projects import Project
    from callsheet.apps.setup import Setup
    from callsheet.frontends.spelling import Syntax
    from callsheet.ir import Plan
    from callsheet.policy.model import Policy

DECISIONS = "retry|skip|fail|value=JSON"
"""The decisions on a call in doubt, as an option takes them."""


class ProgressMode(StrEnum):
    """How progress is displayed."""

    AUTO = "auto"
    """Live on a terminal, otherwise plain."""
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"
PATH = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
FOLDER = click.Path(path_type=Path, file_okay=False)

as_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


def _syntax(_context: click.Context, _option: click.Parameter, value: str | None) -> Syntax | None:
    from callsheet.frontends.spelling import Syntax  # noqa: PLC0415 - not for --help

    return None if value is None else Syntax(value)


syntax = click.option(
    "--syntax",
    type=click.Choice(["ltp", "micro", "dag", "python"]),
    callback=_syntax,
    help="The syntax of plans; default: from the suffix of the file (.ltp, .micro, .json, .yaml, .py), "
    "otherwise from the text.",
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


def output(about: str, *names: str, kind: click.Path[Path] = _FILE, **more: Any) -> Decorator:
    """The option `-o`, and `--output` or other names, of a command that writes files; `about` is its help."""
    metavar = "DIR" if kind is FOLDER else "FILE"
    return click.option("-o", *(names or ("--output",)), type=kind, metavar=metavar, help=about, **more)


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
plans_folder = click.option(
    "--plans",
    "plans_folder",
    type=PATH,
    metavar="DIR",
    help="The folder of the plan library; default: $CALLSHEET_PLANS, otherwise in the user's data folder.",
)
plan_tools = click.option(
    "--plan-tool",
    "plan_tools",
    multiple=True,
    metavar="PLAN",
    help="Offer this saved plan as a tool of its own, with its inputs; * for all. May be repeated.",
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
    from callsheet.apps.projects import project_of, settings_of  # noqa: PLC0415 - as above
    from callsheet.apps.setup import Setup, lock_path  # noqa: PLC0415 - as above
    from callsheet.files import user_folder  # noqa: PLC0415 - only where tools are opened

    project = project_of(Path.cwd())
    settings, own = settings_of(project), project.settings
    if not project.is_trusted:
        _warn_of_untrusted(project)
    hosts = (*settings.fetch.allow_private_hosts, *allow_private_hosts)
    settings = replace(settings, fetch=replace(settings.fetch, allow_private_hosts=hosts))
    if allow_unsandboxed:
        settings = replace(settings, execution=replace(settings.execution, require="best-effort"))
    if pinned:
        settings = replace(settings, trust="pinned")
    if workspace is None:
        workspace = Path() if own.workspace is None else project.folder / own.workspace
    return Setup(
        workspace=workspace.absolute(),
        data=user_folder("data"),
        tools_files=tuple(tools_files) or project.paths(own.tools),
        mcp_configs=tuple(mcp_configs) or project.paths(own.servers),
        settings=settings,
        lock=lock_path(project.folder),
        project=project.folder,
        plans=tuple(str(seen_from_here(path)) for path in project.paths(own.plans)),
        model=resolve_model(model),
    )


def _warn_of_untrusted(project: Project) -> None:
    from callsheet.apps.cli.output import print_diagnostics  # noqa: PLC0415 - only where it is said

    message = f"{project.file} does not count: you have not trusted it as it is now"
    hint = "read it, then `callsheet trust project`; until then commands run as without it"
    print_diagnostics((Diagnostic("CFG117", Severity.WARNING, message, help=hint),), None)


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
    type=PATH,
    metavar="FILE.py",
    help="A file whose Python functions are tools; may be repeated.",
)
mcp_configs = click.option(
    "--mcp-config",
    "mcp_configs",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="A JSON file with MCP servers; may be repeated. Default: the conventional places, if needed.",
)
_workspace = click.option(
    "--workspace",
    type=PATH,
    metavar="DIR",
    help="The folder of the file tools; default: that of the project's configuration, else the current one.",
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
    default="",
    metavar="POLICY",
    help="The policy: strict, workspace, open, or a file; default: that of the project or of config.toml.",
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
    help="With --policy: the id of a step that you approve, or STEP:whether where untrusted data may decide.",
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


def required_policy(option: str, setup: Setup) -> str:
    """The name of the policy of the option, else the configured one; raises click.UsageError without one."""
    policy = option or setup.settings.policy
    if not policy:
        raise click.UsageError(
            "missing option '--policy': strict, workspace, open, or a file; or `policy` in callsheet.toml"
        )
    return policy


def check_approved(plan: Plan, approved: Iterable[str]) -> None:
    """Raise click.UsageError for an approved step that the plan does not have."""
    from callsheet.diagnostics import did_you_mean  # noqa: PLC0415 - only where steps are approved
    from callsheet.policy.model import WHETHER  # noqa: PLC0415 - as above

    ids = [step.id for step in plan.steps]
    for step_id in approved:
        if step_id.removesuffix(WHETHER) not in ids:
            suggestions = did_you_mean(step_id, ids)
            meant = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
            raise click.UsageError(f"--approved: the plan has no step {step_id[:40]!r}{meant}")


@dataclass(frozen=True, slots=True)
class McpTransport:
    """How an MCP server reaches its clients: over HTTP, or by standard input and output."""

    http: str | None
    token_file: Path | None

    def opened(self) -> HttpEndpoint | None:
        """The socket at the address and the token of its clients; None for standard input and output.

        Raises CallsheetError if the one or the other cannot be used.
        """
        if self.http is None:
            if self.token_file is not None:
                raise click.UsageError("--token-file needs --http")
            if sys.stdin is None or sys.stdout is None:
                message = "standard input or output is closed"
                help_text = "let an MCP client start this command, or write --http 8321"
                raise CallsheetError.single("CFG010", message, help=help_text)
            if is_terminal(sys.stdin):
                to_stderr("this command is meant to be started by an MCP client; Ctrl-D stops it")
            return None
        from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - only for a server
        from callsheet.apps.mcp.transports import HttpEndpoint, listen, read_address  # noqa: PLC0415 - as above

        address = read_address(self.http)
        token, is_new = chosen_token(self.token_file)
        bound, address = listen(address)
        return HttpEndpoint(bound, address, token, is_new)


mcp_transport = grouped(
    "transport",
    McpTransport,
    http=click.option(
        "--http",
        metavar="[HOST:]PORT",
        help="Serve streamable HTTP instead of standard input and output; port 0 selects a free port.",
    ),
    token_file=click.option(
        "--token-file",
        type=PATH,
        metavar="FILE",
        help="With --http: a file with the token of clients; default: $CALLSHEET_TOKEN, otherwise a new "
        "token, which is printed.",
    ),
)
"""`--http` and `--token-file` of a server of MCP clients, as `transport`."""


class FiniteRange(click.FloatRange):
    """A finite number in a range. click accepts `nan` in any range, since comparisons with it are false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails if it is not finite or not in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
