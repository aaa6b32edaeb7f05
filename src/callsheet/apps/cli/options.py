"""Options and arguments that several commands share; related options are combined into one argument."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from callsheet import lazy
from callsheet.api.texts import read_text, unreadable
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.frontends.spelling import Syntax

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
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

_ID = lazy.pattern(r"(?!.*\.(?:ltp|micro|json|ya?ml)\Z)[a-z0-9][a-z0-9._-]*(?:@.*)?\Z", re.ASCII)
"""The syntax of a plan id: no slash, and no suffix of a plan file."""
_PATH = click.Path(path_type=Path)

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
    from callsheet.api.requirements import default_data  # noqa: PLC0415 - only where tools are opened
    from callsheet.apps.projects import project_of, settings_of  # noqa: PLC0415 - as above
    from callsheet.apps.setup import Setup, lock_path  # noqa: PLC0415 - as above

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
        data=default_data(),
        tools_files=tuple(tools_files) or project.paths(own.tools),
        mcp_configs=tuple(mcp_configs) or project.paths(own.servers),
        settings=settings,
        lock=lock_path(project.folder),
        project=project.folder,
        plans=tuple(map(str, project.paths(own.plans))),
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
        raise click.UsageError("missing option '--policy': strict, workspace, open, or a file")
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


STDIN = "-"


def read_plan(
    argument: str,
    *,
    syntax: Syntax | None = None,
    strict: bool = False,
    variables: Iterable[str] = (),
) -> PlanText:
    """The plan that an argument names.

    `syntax` is the syntax, None to detect it from the suffix or the text. `strict` makes loose spellings
    errors. `variables` are the names of variables that the run will be given.

    Raises CallsheetError (CFG012) if the text cannot be read. Errors in the text are part of the result.
    """
    path = None if argument == STDIN else Path(argument)
    source = Source("<stdin>" if path is None else argument, _read_plan_input(path))
    return text_of(path, source, syntax=syntax, strict=strict, variables=variables)


_PLAN_SUFFIXES = (".ltp", ".micro", ".dag.json", ".dag.yaml", ".dag.yml")


def plan_files(names: Iterable[str], project: Iterable[str] = ()) -> tuple[str, ...]:
    """The files of plans that arguments name: a folder stands for all plans in it, a pattern for its matches.

    Without arguments these are the plans of the `project`. A folder or pattern without plans stands for
    itself, which cannot be read. Raises click.UsageError if there is nothing to take.
    """
    given = tuple(names) or tuple(project)
    if not given:
        raise click.UsageError('missing argument PLAN; a project names its plans: plans = ["plans"]')
    return tuple(dict.fromkeys(file for name in given for file in _plans_at(name)))


def _plans_at(name: str) -> list[str]:
    found: list[str] = []
    if os.path.isdir(name):
        files = (path for path in Path(name).rglob("*") if path.name.endswith(_PLAN_SUFFIXES))
        found = sorted(str(path) for path in files if path.is_file())
    elif any(char in name for char in "*?[") and not os.path.isfile(name):
        import glob  # noqa: PLC0415 - only for patterns that the shell has left

        found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
    return found or [name]


def try_read_plan(
    argument: str, *, syntax: Syntax | None = None, strict: bool = False, variables: Iterable[str] = ()
) -> PlanText:
    """As `read_plan`, but a text that cannot be read is a diagnostic in the result."""
    try:
        return read_plan(argument, syntax=syntax, strict=strict, variables=variables)
    except CallsheetError as error:
        return PlanText(None, Source(argument, ""), None, error.diagnostics)


def _read_plan_input(path: Path | None) -> str:
    name = "standard input" if path is None else str(path)
    help_text = "give a file, or - for standard input"
    try:
        if path is None and sys.stdin is None:
            raise unreadable(name, "it is closed", help_text)
        if path is None:
            return read_text(sys.stdin.buffer, name, help_text)
        with path.open("rb") as file:
            return read_text(file, name, help_text)
    except IsADirectoryError as error:
        files = f"name its files, for example with the pattern {shlex.quote(name)}/*.ltp"
        raise unreadable(name, "it is a folder", files) from error
    except OSError as error:
        raise unreadable(name, error.strerror or str(error), help_text) from error


_NAME = lazy.pattern(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse_variables(
    assignments: Iterable[str], option: str = "--var", *, placed: bool = False
) -> dict[str, Any]:
    """The variables of an option by name. Raises CallsheetError (CFG011) for an invalid or repeated one.

    Names may be `placed` in an item or sub-plan of a run, as in `S2[4]/left`.

    >>> parse_variables(["n=3", "city=Oslo", 'tags=["a"]', "empty="])
    {'n': 3, 'city': 'Oslo', 'tags': ['a'], 'empty': ''}
    """
    values: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise _error(f"{option} {text[:60]!r} has no =", f"write {option} name=value")
        place, slash, name = name.rpartition("/") if placed else ("", "", name)
        name = place.strip().removeprefix("$") + slash + parse_name(option, name)
        if name in values:
            raise _error(f"{option} gives {name} twice", "give each variable once")
        values[name] = parse_value(f"{option} {name}", value)
    return values


def as_declared(plan: Plan | None, inputs: dict[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """The variables as the inputs of a plan of version 2 want them: where one is a text, as it was typed.

    `assignments` are those of `parse_variables`, which reads `id=7` as a number.
    """
    if plan is None or plan.tree is None:
        return inputs
    from callsheet.ir.inputs import takes_text  # noqa: PLC0415 - only for version 2

    typed = {
        name.strip().removeprefix("$"): raw for name, _, raw in (one.partition("=") for one in assignments)
    }
    texts = {
        one.name: typed[one.name] for one in plan.tree.inputs if one.name in typed and takes_text(one.type)
    }
    return inputs | texts


def parse_name(option: str, text: str) -> str:
    """The name of a variable without `$`. Raises CallsheetError (CFG011) for an invalid name."""
    name = text.strip().removeprefix("$")
    if not _NAME.match(name):
        raise _error(
            f"{option}: {name[:60]!r} is not a variable name",
            "a name consists of ASCII letters, digits and _, and does not start with a digit",
        )
    return name


def parse_value(option: str, raw: str) -> Any:
    """The JSON value of a text, otherwise the text itself; NaN and infinities are texts."""
    twice: list[str] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in parsed if keys.count(key) > 1)
        return parsed

    from callsheet.ir.strict_json import finite, refuse_constant  # noqa: PLC0415 - not for --help

    text = _decoded(option, raw)
    try:
        value = json.loads(
            text, parse_float=finite, parse_constant=refuse_constant, object_pairs_hook=as_dict
        )
    except (ValueError, RecursionError):
        return text
    if twice:
        raise _error(f"{option} gives the key {twice[0][:60]!r} twice", "give each key of an object once")
    return value


def _decoded(option: str, raw: str) -> str:
    """The value as UTF-8 text, independent of the locale."""
    try:
        return os.fsencode(raw).decode("utf-8")
    except UnicodeError:
        raise _error(f"the value of {option} is not UTF-8 text", "encode it as UTF-8") from None


def _error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("CFG011", message, help=help_text)


_MAX_BYTES = 1_000_000
_FORMS = "env:VARIABLE nor file:PATH nor -"


def read_secrets(assignments: Iterable[str], variables: Mapping[str, object] = {}) -> dict[str, str]:
    """The secrets of `--secret` by name. Raises CallsheetError (SEC005) for one that cannot be read.

    `variables` are the other inputs of the run.
    """
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, source = text.partition("=")
        name = parse_name("--secret", name)
        if not equals:
            raise _secret_error(f"--secret {name} has no source", f"write --secret {name}=env:{name.upper()}")
        if name in values or name in variables:
            raise _secret_error(f"{name} is given twice", "give each variable once: by --secret or by --var")
        secret = _read_assignments(name, source)
        if not secret:
            raise _secret_error(
                f"the secret {name} is empty", "check the variable or file that it is read from"
            )
        values[name] = secret
    return values


def _read_assignments(name: str, source: str) -> str:
    if source == "-":
        return _prompt(name)
    kind, _, what = source.partition(":")
    if kind == "env" and what:
        value = os.environ.get(what)
        if value is None:
            raise _secret_error(f"--secret {name}: the environment variable {what[:60]} is not set", "set it")
        return value
    if kind == "file" and what:
        return _read_file(name, Path(what).expanduser())
    raise _secret_error(
        f"--secret {name} is neither {_FORMS}",
        f"put the secret into a variable or a file: --secret {name}=env:{name.upper()}",
    )


def _prompt(name: str) -> str:
    if is_terminal(sys.stdin):
        return str(click.prompt(f"secret {name}", hide_input=True, err=True, default="", show_default=False))
    data = sys.stdin.buffer.read(_MAX_BYTES + 1) if sys.stdin is not None else b""
    return _text(name, data, "standard input")


def _read_file(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _secret_error(
            f"--secret {name}: {path} cannot be read: {error.strerror}", "name a readable file"
        ) from None
    return _text(name, data, str(path))


def _text(name: str, data: bytes, source: str) -> str:
    if len(data) > _MAX_BYTES:
        raise _secret_error(f"--secret {name}: {source} contains more than 1 MB", "a secret is a short text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _secret_error(f"--secret {name}: {source} is not UTF-8 text", "a secret is a text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _secret_error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("SEC005", message, help=help_text)


class FiniteRange(click.FloatRange):
    """A finite number in a range. click accepts `nan` in any range, since comparisons with it are false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails if it is not finite or not in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
