"""`callsheet webhooks`: the webhooks of the project, and a signed delivery to try one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text, to_stderr
from callsheet.apps.cli.servers import project_with
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_service_rows import LastRun, NamedWebhook
    from callsheet.apps.scheduling.webhooks import Webhook

_ADDRESS = "http://127.0.0.1:8420"


@click.group(invoke_without_command=True)
@click.pass_context
@journals.journal_path
@options.as_json
def webhooks(ctx: click.Context, journal: Path | None, as_json: bool) -> None:
    """Start plans when another service says so: list the webhooks of the project.

    A webhook is a table of callsheet.toml. `callsheet serve` takes its deliveries at /v1/webhooks/NAME.

    \b
    Example:
      [webhooks.issue-opened]
      plan = "plans/triage.ltp"
      secret = "env:ISSUES_SECRET"
      signature = "github"
      take = { title = "issue.title" }
    """
    if ctx.invoked_subcommand is not None:
        return
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - not for --help

    _, settings = project_with("webhooks")
    place = journal or default_journal_path()
    rows: list[NamedWebhook] = [
        {
            "webhook": name,
            "path": f"/v1/webhooks/{name}",
            "plan": each.plan,
            "signature": each.signature,
            "takes": dict(each.take),
            "gives": sorted(each.inputs),
            "problem": _problem(each),
            "last": _last(place, name),
        }
        for name, each in settings.webhooks.items()
    ]
    if as_json:
        print_json(rows)
        return
    for row, each in zip(rows, settings.webhooks.values(), strict=True):
        last = row["last"]
        told = (
            f"{last['run_id']}, {last['status'].replace('_', ' ')}" if isinstance(last, dict) else "none yet"
        )
        takes = ", ".join(f"${name} = {path}" for name, path in each.take.items()) or "the body's members"
        print_text(f"{row['webhook']}: {each.plan} at {row['path']}, signed as {each.signature}")
        print_text(f"  takes {takes}  last {told}")
        if row["problem"]:
            print_text(f"  cannot be served: {row['problem']}")


def _problem(webhook: Webhook) -> str | None:
    """Why the secret cannot be used in this environment; None if it can."""
    try:
        webhook.keys()
    except CallsheetError as error:
        return error.diagnostics[0].message
    return None


def _last(journal: Path, name: str) -> LastRun | None:
    from contextlib import closing  # noqa: PLC0415 - not for --help

    from callsheet.store.journal import Journal  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import is_absent  # noqa: PLC0415 - as above
    from callsheet.store.listing import RunQuery, listed_runs  # noqa: PLC0415 - as above
    from callsheet.store.runs import RunFilter  # noqa: PLC0415 - as above

    if is_absent(journal):
        return None
    with closing(Journal.open_to_read(journal)) as opened:
        query = RunQuery(wanted=RunFilter(tags=(f"webhook={name}",)), limit=1)
        for info, status in listed_runs(opened, query):
            return {"run_id": info.run_id, "status": status}
    return None


@webhooks.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"), metavar="BODY.json|-")
@click.option(
    "--to", "address", default=_ADDRESS, show_default=True, metavar="URL", help="Where `callsheet serve` is."
)
@click.option("--id", "id_", metavar="ID", help="The id of the delivery; default: a new one.")
@options.as_json
def send(name: str, file: BinaryIO, address: str, id_: str | None, as_json: bool) -> int:
    """Sign a body as the sender of the webhook NAME does, deliver it, and print the answer.

    \b
    Example:
      callsheet webhooks send issue-opened body.json
    """
    import json  # noqa: PLC0415 - not for --help
    import time  # noqa: PLC0415 - as above
    import uuid  # noqa: PLC0415 - as above

    import httpx2  # noqa: PLC0415 - as above

    from callsheet.apps.scheduling.webhooks import signed  # noqa: PLC0415 - as above

    _, settings = project_with("webhooks")
    webhook = settings.webhooks.get(name)
    if webhook is None:
        raise click.UsageError(f"there is no webhook {name!r}; there are {', '.join(settings.webhooks)}")
    body = file.read()
    headers = signed(webhook, webhook.keys()[0], body, id_ or f"msg_{uuid.uuid4().hex}", int(time.time()))
    url = f"{address.rstrip('/')}/v1/webhooks/{name}"
    headers = {**headers, "content-type": "application/json"}
    try:
        answer = httpx2.post(url, content=body, headers=headers, timeout=60, follow_redirects=False)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = type(error).__name__
        message = f"{url} does not answer ({why}); is `callsheet serve` running there?"
        raise click.UsageError(message) from None
    try:
        parsed: Any = answer.json()
    except ValueError:
        parsed = None
    said = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    if not {"code", "run_id"} & {*said}:
        raise click.UsageError(f"{url} answered {answer.status_code}, and is no callsheet server")
    if as_json:
        print_json({"http_status": answer.status_code, **said})
    elif answer.status_code >= 300:
        to_stderr(f"{answer.status_code} {said.get('code', '')}: {said.get('detail', '')}")
        for row in said.get("diagnostics", [])[1:]:
            to_stderr(f"  {row.get('message', '')}")
    elif said.get("run_id") is None:
        print_text(f"nothing starts: {said.get('reason')}")
    else:
        print_text(f"{said['run_id']} {'starts' if said['is_new'] else 'is there already'}: {said['status']}")
        to_stderr(f"callsheet show {json.dumps(said['run_id'])[1:-1]}")
    return Exit.OK if answer.status_code < 300 else Exit.FAILED
