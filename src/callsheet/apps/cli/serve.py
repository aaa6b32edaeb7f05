"""`callsheet serve`: serves the HTTP API and the web viewer, by default on this machine only."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.number_types import FiniteRange
from callsheet.apps.cli.output import to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.http.proxies import Network
    from callsheet.apps.http.serving import ServeOptions, Serving
    from callsheet.apps.session import Setup


def _networks(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[Network, ...]:
    if not texts:
        return ()
    from callsheet.apps.http.proxies import read_network  # noqa: PLC0415 - only behind a proxy

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
        "--host", "address", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen here."
    ),
    port=click.option(
        "--port", type=click.IntRange(0, 65_535), default=8420, show_default=True, help="0 takes a free one."
    ),
    allow_hosts=click.option(
        "--allow-host",
        "allow_hosts",
        multiple=True,
        metavar="NAME[:PORT]",
        help="A name under which a proxy is reached; may be repeated.",
    ),
    proxies=click.option(
        "--behind-proxy",
        "proxies",
        multiple=True,
        callback=_networks,
        metavar="ADDRESS",
        help="Believe this proxy, or network of proxies, when it says whom it asks for (X-Forwarded-For); "
        "may be repeated.",
    ),
    revives=click.option(
        "--revive/--no-revive",
        "revives",
        default=True,
        show_default=True,
        help="Carry on the runs that the last server left.",
    ),
    running=click.option(
        "--running", type=click.IntRange(1, 1_000), default=16, show_default=True, help="Runs at once."
    ),
    queued=click.option(
        "--queued", type=click.IntRange(0), default=1_000, show_default=True, help="Runs that may wait."
    ),
    drain=click.option(
        "--drain",
        type=FiniteRange(0, 3_600),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="How long runs under way may go on when the server is stopped.",
    ),
    per_second=click.option(
        "--rate", "per_second", type=FiniteRange(0), default=100.0, show_default=True, metavar="N",
        help="Requests a second of one client; 0 for no bound.",
    ),
    most_body=click.option(
        "--max-body", "most_body", type=click.IntRange(1_024), default=4 * 1024 * 1024, show_default=True,
        metavar="BYTES", help="The largest body.",
    ),
    body_seconds=click.option(
        "--body-timeout", "body_seconds", type=FiniteRange(0.1), default=10.0, show_default=True,
        metavar="SECONDS", help="How long a body may take to come.",
    ),
)  # fmt: skip


@click.command()
@_server_options
@click.option("--no-auth", is_flag=True, help="Let everybody on this machine in, without a token.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The token; default: $CALLSHEET_TOKEN, else a new one that is printed.",
)
@options.tool_sources
@options.policy_if_any
@options.plans_folder
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print where it listens as a JSON object.")
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
    """Serve the HTTP API under /v1, and the web viewer at /.

    It listens on this machine alone, and asks for the token that is printed once. Ctrl-C stops it: runs that
    are under way are interrupted, and the next server carries them on, or `callsheet resume`.
    """
    if no_auth and token_file is not None:
        raise click.UsageError("--no-auth and --token-file contradict each other")
    _require_extra()
    from callsheet.apps.http.serving import chosen_token  # noqa: PLC0415 - brings the server, as all below

    token, is_new = (None, False) if no_auth else chosen_token(token_file)
    serve_options = replace(_read(server_values), token=token, plans=plans_folder)
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
    from callsheet.apps.http.rate_limit import Rate  # noqa: PLC0415 - as above
    from callsheet.apps.http.serving import ServeOptions  # noqa: PLC0415
    from callsheet.apps.http.state import RequestLimits  # noqa: PLC0415

    remaining = dict(server_values)
    per_second = float(str(remaining.pop("per_second")))
    request_limits = RequestLimits(
        most_body=int(str(remaining.pop("most_body"))), body_seconds=float(str(remaining.pop("body_seconds")))
    )
    rate = Rate(per_second, max(1, int(4 * per_second)))
    return ServeOptions(rate=rate, request_limits=request_limits, **remaining)  # pyright: ignore[reportArgumentType]


def _serve(
    serve_options: ServeOptions,
    setup: Setup,
    policy: str,
    journal: Path | None,
    *,
    token: str | None,
    as_json: bool,
) -> None:
    from callsheet.api.threads import to_the_end  # noqa: PLC0415 - as above
    from callsheet.apps.http.serving import serve as serving  # noqa: PLC0415

    def announce(ready: Serving) -> None:
        if as_json:
            click.echo(json.dumps({"url": ready.url, "sign_in": ready.sign_in_url, "token": token}))
        else:
            to_stderr(f"callsheet serves {ready.url}; the viewer: {ready.sign_in_url}")
            if token is not None:
                to_stderr(f"token (shown once): {token}")
            to_stderr("Ctrl-C stops it")
        prints.enter_context(ready.masker.over_prints())  # after this token, which is to be read

    with journals.open_journal(journal) as opened, ExitStack() as prints:
        work = serving(
            serve_options,
            setup,
            opened,
            policy=options.resolve_policy(policy, setup),
            on_ready=announce,
            say=to_stderr,
        )
        asyncio.run(to_the_end(work))
    if not as_json:
        to_stderr("stopped; what was under way goes on with the next server, or by `callsheet resume`")
