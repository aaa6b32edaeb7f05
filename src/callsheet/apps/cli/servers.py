"""Commands that serve until they are stopped: `callsheet serve`, `mcp`, `lsp`, `dap`, and `schedule`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options, run_options
from callsheet.apps.cli.arguments import parse_variables
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import print_json, print_text, reserve_stdin, reserve_stdout, to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.http.clients import Network
    from callsheet.apps.http.serving import ServeOptions, Serving
    from callsheet.apps.http.state import OpenWebhook
    from callsheet.apps.scheduling.scheduler import ScheduledProject
    from callsheet.apps.setup import Setup
    from callsheet.machine.limits import Limits


def _networks(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[Network, ...]:
    if not texts:
        return ()
    from callsheet.apps.http.clients import read_network  # noqa: PLC0415 - only behind a proxy

    try:
        return tuple(map(read_network, texts))
    except ValueError as error:
        raise click.BadParameter(f"{error}; write 127.0.0.1 or 10.0.0.0/8", ctx, param) from error


def _given_options(**values: object) -> dict[str, object]:
    return values


_server_options = options.grouped(
    "server_values",
    _given_options,
    address=click.option(
        "--host", "address", default="127.0.0.1", show_default=True, metavar="ADDRESS",
        help="The address to listen on.",
    ),
    port=click.option(
        "--port", type=click.IntRange(0, 65_535), default=8420, show_default=True,
        help="The port; 0 selects a free one.",
    ),
    allow_hosts=click.option(
        "--allow-host",
        "allow_hosts",
        multiple=True,
        metavar="NAME[:PORT]",
        help="A host name that a proxy serves; may be repeated.",
    ),
    proxies=click.option(
        "--behind-proxy",
        "proxies",
        multiple=True,
        callback=_networks,
        metavar="ADDRESS",
        help="Trust the header X-Forwarded-For of this proxy or network of proxies; may be repeated.",
    ),
    revives=click.option(
        "--revive/--no-revive",
        "revives",
        default=True,
        show_default=True,
        help="Continue the runs that the last server left unfinished.",
    ),
    running=click.option(
        "--running", type=click.IntRange(1, 1_000), default=16, show_default=True,
        help="The maximum number of concurrent runs.",
    ),
    queued=click.option(
        "--queued", type=click.IntRange(0), default=1_000, show_default=True,
        help="The maximum number of queued runs.",
    ),
    drain=click.option(
        "--drain",
        type=FiniteRange(0, 3_600),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="How long runs may continue when the server is stopped.",
    ),
    per_second=click.option(
        "--rate", "per_second", type=FiniteRange(0), default=100.0, show_default=True, metavar="N",
        help="The maximum number of requests per second of a client; 0 for no limit.",
    ),
    most_body=click.option(
        "--max-body", "most_body", type=click.IntRange(1_024), default=4 * 1024 * 1024, show_default=True,
        metavar="BYTES", help="The maximum size of a request body.",
    ),
    most_streams=click.option(
        "--streams", "most_streams", type=click.IntRange(1, 100_000), default=64, show_default=True,
        metavar="N",
        help="The maximum number of open event streams: each page of a run needs one, and each follower.",
    ),
    people=click.option(
        "--people", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
        help="A file of people with tokens, roles and rights of their own: `callsheet people`.",
    ),
    body_seconds=click.option(
        "--body-timeout", "body_seconds", type=FiniteRange(0.1), default=10.0, show_default=True,
        metavar="SECONDS", help="The maximum time for receiving a request body.",
    ),
)  # fmt: skip


@click.command()
@_server_options
@click.option("--no-auth", is_flag=True, help="Require no token: everybody on this machine has access.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with the token; default: $CALLSHEET_TOKEN, otherwise a new token, which is printed.",
)
@options.tool_sources
@options.policy_if_any
@options.plans_folder
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print the addresses and the token as a JSON object.")
def serve(
    server_values: dict[str, object],
    no_auth: bool,
    token_file: Path | None,
    setup: Setup,
    policy: str,
    plans_folder: Path | None,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Serve the HTTP API under /v1 and the web viewer at /.

    By default the server listens only on this machine. Clients need the token, which is printed once. Ctrl-C
    stops the server: its runs are interrupted, and continued by the next server or by `callsheet resume`.

    \b
    Example:
      callsheet serve --port 8420 --tools tools.py --policy workspace
    """
    if no_auth and token_file is not None:
        raise click.UsageError("--no-auth and --token-file cannot be combined")
    _require_extra()
    from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - imports the server, as all below

    token, is_new = (None, False) if no_auth else chosen_token(token_file)
    webhooks, project = _from_project()
    serve_options = replace(
        _read(server_values),
        token=token,
        plans=plans_folder,
        webhooks=webhooks,
        schedules=project.schedules,
        audience=project.audience,
    )
    serve_options.check()
    _serve(serve_options, setup, policy, journal, token=token if is_new else None, as_json=as_json)
    return Exit.OK


def _require_extra() -> None:
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise CallsheetError.single(
                "API017",
                f"the HTTP API needs {name}, which is not installed",
                help="pip install 'callsheet[api]'",
            )


def _read(server_values: dict[str, object]) -> ServeOptions:
    from callsheet.apps.http.clients import Rate  # noqa: PLC0415 - as above
    from callsheet.apps.http.serving import ServeOptions  # noqa: PLC0415
    from callsheet.apps.http.state import RequestLimits  # noqa: PLC0415

    remaining = dict(server_values)
    per_second = float(str(remaining.pop("per_second")))
    request_limits = RequestLimits(
        most_body=int(str(remaining.pop("most_body"))),
        body_seconds=float(str(remaining.pop("body_seconds"))),
        most_streams=int(str(remaining.pop("most_streams"))),
    )
    rate = Rate(per_second, max(1, int(4 * per_second)))
    return ServeOptions(rate=rate, request_limits=request_limits, **remaining)  # pyright: ignore[reportArgumentType]


def _from_project() -> tuple[dict[str, OpenWebhook], ScheduledProject]:
    """The webhooks of the project of this folder and its settings, if it is trusted."""
    from callsheet.apps.http.state import OpenWebhook  # noqa: PLC0415 - as above
    from callsheet.apps.projects import project_of, settings_in  # noqa: PLC0415 - as above
    from callsheet.apps.scheduling.scheduler import ScheduledProject  # noqa: PLC0415 - as above

    project = project_of(Path.cwd())
    found = ScheduledProject()
    if project.file is not None and project.is_trusted:
        found = settings_in(project.file, ScheduledProject)
    named = {name: OpenWebhook.of(each, project.folder) for name, each in found.webhooks.items()}
    return named, found


def _serve(
    serve_options: ServeOptions,
    setup: Setup,
    policy: str,
    journal: Path | None,
    *,
    token: str | None,
    as_json: bool,
) -> None:
    from callsheet.apps.http.serving import serve as serving  # noqa: PLC0415
    from callsheet.runtime.event_loop import run_before_close  # noqa: PLC0415 - as above

    def announce(ready: Serving) -> None:
        if as_json:
            click.echo(json.dumps({"url": ready.url, "sign_in": ready.sign_in_url, "token": token}))
        else:
            to_stderr(f"serving {ready.url}; viewer: {ready.sign_in_url}")
            if token is not None:
                to_stderr(f"token (shown once): {token}")
            to_stderr("Ctrl-C stops it")
        stack.enter_context(ready.masker.masking_output())  # only now: the token must be readable

    with journals.open_journal(journal) as opened, ExitStack() as stack:
        work = serving(
            serve_options,
            setup,
            opened,
            policy=options.resolve_policy(policy, setup),
            on_ready=announce,
            say=to_stderr,
        )
        asyncio.run(run_before_close(work))
    if not as_json:
        to_stderr("stopped; the next server or `callsheet resume` continues interrupted runs")


DOCUMENTED = frozenset(
    {
        "parse_plan",
        "validate_plan",
        "visualize_plan",
        "plan_create",
        "plan_execute",
        "plan_create_and_execute",
    }
)
"""The tools of the documented MCP server."""


@click.command()
@options.mcp_transport
@options.tool_sources
@options.policy_if_any
@click.option(
    "--approve",
    multiple=True,
    metavar="TOOL",
    help="Require approval of each call of this tool; may be repeated.",
)
@click.option(
    "--client-answers",
    is_flag=True,
    help="Offer answer_run to clients that cannot ask a person: their model can then approve calls.",
)
@click.option(
    "--documented",
    is_flag=True,
    help="Offer also parse_plan, validate_plan, visualize_plan, plan_create, plan_execute and "
    "plan_create_and_execute.",
)
@click.option(
    "--operations", is_flag=True, help="Offer also all operations on plans and runs (6,000 tokens and more)."
)
@options.plan_tools
@run_options.limits
@options.plans_folder
@journals.recording_in_journal
def mcp(  # noqa: PLR0913 - an argument for each group of options
    *,
    transport: options.McpTransport,
    setup: Setup,
    policy: str,
    approve: tuple[str, ...],
    client_answers: bool,
    documented: bool,
    operations: bool,
    plan_tools: tuple[str, ...],
    limits: Limits,
    plans_folder: Path | None,
    recording: journals.Recording,
) -> int:
    """Serve plans, runs and the tools of callsheet to MCP clients.

    Without --http, the client starts this command and communicates over standard input and output. Policy,
    limits, tools and servers apply to every plan that a client runs, and no client can widen them. Runs that
    are interrupted at the end are recorded: `callsheet resume` continues them.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.apps.gate.serving import serve_models  # noqa: PLC0415
    from callsheet.apps.mcp.transports import ServerConfig  # noqa: PLC0415
    from callsheet.store.library import open_library  # noqa: PLC0415

    web = transport.opened()
    settings = replace(setup.settings, approve=(*setup.settings.approve, *approve))
    setup = replace(setup, settings=settings)
    resolved_policy = options.resolve_policy(policy, setup)
    journal = recording.open(setup.settings.secrets.shapes)
    assert journal is not None
    served = ServerConfig(
        setup=setup,
        limits=limits,
        policy=resolved_policy,
        library=open_library(plans_folder),
        journal=journal,
        clients_may_answer=client_answers,
        hint=journals.journal_hint(recording.journal),
        operations=None if operations else DOCUMENTED if documented else frozenset(),
    )
    with journal, suppress(KeyboardInterrupt):  # Ctrl-C stops the server
        run_async(serve_models(served, web, to_stderr, plan_tools))
    return Exit.OK


@click.command()
@click.option("--stdio", is_flag=True, help="Communicate over standard input and output; the default.")
@click.option(
    "--tcp",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Listen on this port of 127.0.0.1 instead; 0 selects a free port, which is printed.",
)
@options.policy_if_any
@options.checked_tools
@options.variables
def lsp(stdio: bool, port: int | None, policy: str, setup: Setup, variables: tuple[str, ...]) -> None:
    """Start the language server: diagnostics, completion, hover, rename and formatting of plans and policies.

    Servers are asked for their tools only if --mcp-config is given, once at the start. Nothing is executed.
    """
    if stdio and port is not None:
        raise click.UsageError("--stdio and --tcp cannot be combined")
    if port is None:
        if sys.stdin is None or sys.stdout is None:
            raise click.UsageError(
                "standard input or output is closed: an editor must start this command, or use --tcp"
            )
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the blocking read would not be interrupted by Ctrl-C
    inputs = parse_variables(variables)
    try:
        from callsheet.apps.lsp.server import serve_stdio, serve_tcp  # noqa: PLC0415 - not for --help
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise CallsheetError.single(
            "LSP001",
            "the language server needs pygls, which is not installed",
            help="pip install 'callsheet[lsp]'",
        ) from error
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.lsp.server import make_server  # noqa: PLC0415 - as above
    from callsheet.apps.operations.editing import AnalysisContext, tools_of  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above

    out = reserve_stdout() if port is None else None
    context = AnalysisContext(
        setup,
        tools_of(DeclaredTools(setup)),
        options.resolve_policy(policy, setup),
        tuple(inputs),
        setup.providers,
    )
    if out is not None:
        serve_stdio(make_server(context), out)
    else:
        run_async(
            serve_tcp(
                lambda: make_server(context), port or 0, lambda n: to_stderr(f"listening on 127.0.0.1:{n}")
            )
        )


@click.command()
def dap() -> int:
    """Start the debug adapter for editors: it runs one plan, and stops it at breakpoints.

    An editor starts this command and speaks the Debug Adapter Protocol on its standard input and output. The
    request `launch` takes `program` (a plan), `resume` or `recorded` (a run that goes on, or whose recording
    is stepped through), `args` (options of `callsheet run`), `inputs`, `cwd`, `env` and `stopOnEntry`. A run
    is recorded as every other.
    """
    import os  # noqa: PLC0415 - not for --help
    from contextlib import redirect_stderr, redirect_stdout  # noqa: PLC0415 - as above

    from callsheet.apps.cli.debugging.adapter import Adapter  # noqa: PLC0415 - as above
    from callsheet.apps.cli.debugging.protocol import Channel, output_stream  # noqa: PLC0415 - as above
    from callsheet.apps.cli.main import main  # noqa: PLC0415 - it imports nothing

    if sys.stdin is None or sys.stdout is None or sys.stdin.isatty():
        raise click.UsageError("an editor must start this command; in a terminal: callsheet run PLAN --step")
    channel = Channel(reserve_stdin(), reserve_stdout())
    adapter = Adapter(channel)
    adapter.begin()
    wanted = adapter.launched()
    if wanted is None:
        return Exit.OK
    status: object = Exit.OK
    with (
        redirect_stdout(output_stream(channel, "stdout")),
        redirect_stderr(output_stream(channel, "console")),
    ):
        try:
            os.environ.update(wanted.environment)
            if wanted.folder:
                os.chdir(wanted.folder)
        except (OSError, ValueError) as error:
            to_stderr(f"cwd or env of the launch configuration cannot be used: {error}")
            status = Exit.WRONG
        else:
            try:
                main.main(list(wanted.line), obj=adapter)
            except SystemExit as ended:
                status = ended.code
    adapter.ended(status if isinstance(status, int) else Exit.OK, _PATIENCE_OF_EDITOR)
    return Exit.OK


_PATIENCE_OF_EDITOR = 5.0
"""Seconds that an editor has to disconnect after the end of the run that it debugs."""


@click.group(invoke_without_command=True)
@click.pass_context
@journals.journal_path
@options.as_json
def schedule(ctx: click.Context, journal: Path | None, as_json: bool) -> None:
    """Run plans by the clock: list the schedules of the project, or run them.

    A schedule is a table of callsheet.toml. `callsheet schedule run` runs them all until it is stopped;
    without a subcommand each is listed with its next time and its last run.

    \b
    Example:
      [schedules.nightly]
      plan = "plans/report.ltp"
      cron = "0 3 * * 1-5"
      timezone = "Europe/Oslo"
    """
    if ctx.invoked_subcommand is not None:
        return
    from callsheet.apps.scheduling.scheduler import schedule_rows  # noqa: PLC0415 - imports the store
    from callsheet.store.journal import Journal  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    _, settings = project_with("schedules")
    place = journal or default_journal_path()
    with nullcontext() if is_absent(place) else closing(Journal.open_to_read(place)) as opened:
        rows = schedule_rows(settings.schedules, opened)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        last = row["last"]
        told = (
            f"{last['run_id']}, {last['status'].replace('_', ' ')}" if isinstance(last, dict) else "none yet"
        )
        print_text(f"{row['schedule']}: {row['plan']} at {row['cron']} {row['timezone']}")
        print_text(f"  next {row['next']}  last {told}")


@schedule.command("run")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The token of `callsheet serve`, which signs the links in mails; default: $CALLSHEET_TOKEN.",
)
@journals.journal_path
def run_schedules(token_file: Path | None, journal: Path | None) -> None:
    """Run the schedules of the project until this process is stopped.

    Each time that comes starts `callsheet run` in a process of its own, in the project's folder. After a
    crash, start this command again: it resumes the runs that have not ended, and treats the times that have
    passed as the schedules say (`missed`). Stop it with Ctrl-C or SIGTERM: the runs under way can be resumed.
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.scheduling.scheduler import Scheduler  # noqa: PLC0415 - imports the store
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    folder, settings = project_with("schedules")
    place = (journal or default_journal_path()).absolute()
    token = _token(token_file) if settings.mail is not None and settings.mail.link else None
    scheduler = Scheduler(
        settings.schedules,
        settings.audience(token, place),
        folder=folder,
        journal=place,
        tell=to_stderr,
        hint=journals.journal_hint(journal),
    )
    to_stderr(f"running {', '.join(settings.schedules)}; stop with Ctrl-C")
    run_async(scheduler.run())


def _token(path: Path | None) -> str | None:
    """The token of `callsheet serve`, of a file or the environment; None, with a remark, without one."""
    from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - imports the server

    token, is_new = chosen_token(path)
    if not is_new:
        return token
    to_stderr(
        "mails have links that do not sign in: give the server's token, --token-file or $CALLSHEET_TOKEN"
    )
    return None


def project_with(table: str) -> tuple[Path, ScheduledProject]:
    """The project's folder and settings; ends the command, with the way out, if it has no such table."""
    from callsheet.apps.projects import NAME, project_of, settings_in  # noqa: PLC0415 - not for --help
    from callsheet.apps.scheduling.scheduler import ScheduledProject  # noqa: PLC0415 - imports the store

    found = project_of(Path.cwd())
    if found.file is not None and not found.is_trusted:
        to_stderr(f"{found.file} is not trusted: read it, then `callsheet trust project`")
        raise click.exceptions.Exit(Exit.WRONG)
    if found.file is None or not getattr(found.settings, table):
        to_stderr(f"the project in {found.folder} has no {table}: add [{table}.NAME] to its {NAME}")
        raise click.exceptions.Exit(Exit.WRONG)
    return found.folder, settings_in(found.file, ScheduledProject)
