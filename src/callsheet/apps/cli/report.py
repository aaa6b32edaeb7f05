"""`callsheet report`: writes a run as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.views.report.build import Preview

_MAX_BYTES = 16_384


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file to write, `-` for standard output; default: RUN.html in the current folder.",
)  # fmt: skip
@click.option("--diff", "other", metavar="OTHER", help="Include a comparison with the run OTHER.")
@click.option(
    "--max-value", "most", type=click.IntRange(0), default=_MAX_BYTES, show_default=True, metavar="BYTES",
    help="The size above which values are shortened.",
)  # fmt: skip
@click.option("--redact", is_flag=True, help="Omit values; names, kinds and sizes are kept.")
@click.option(
    "--preview-redaction", "only_preview", is_flag=True,
    help="Print what would be shown, shortened, encrypted and omitted; write nothing.",
)  # fmt: skip
@journals.journal_path
@options.as_json
def report(
    run: str,
    output: Path | None,
    other: str | None,
    most: int,
    redact: bool,
    only_preview: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write RUN as one self-contained HTML file.

    RUN is a run id, a unique prefix of one, or `last`. The report shows the plan as a graph, the calls over
    time, every event, the lineage and confidence of values, the findings of rules, and the cost of the run.

    The file contains the values of the run. Check it with --preview-redaction before you share it; --redact
    omits the values. The exit status is 1 if the hash chain of the events is broken, which the report shows
    as well.

    \b
    Examples:
      callsheet report last
      callsheet report last --redact -o public.html
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - imports the store
    from callsheet.runtime.reporting import MADE_BY, report_document, report_page  # noqa: PLC0415 - imports the runtime
    from callsheet.views.report.build import (  # noqa: PLC0415 - as above
        Showing,
        preview_of,
    )

    if as_json and output is not None and str(output) == "-":
        raise click.UsageError("--json and the report cannot both be written to standard output: name a file")
    refresh_copies(journal, run)
    with journals.open_to_read(journal) as opened:
        document = report_document(opened, run, MADE_BY, Showing(most, redact), other)
    preview = preview_of(document)
    chain = document.run["chain"]
    if not chain["ok"]:
        to_stderr(f"run {document.run['id']}: CHAIN BROKEN at event {chain['seq']}: {chain['why']}")
    status = Exit.OK if chain["ok"] else Exit.FAILED
    if only_preview:
        _show_preview(preview, as_json=as_json)
        return status
    page = report_page(document)
    path = output or Path(f"{document.run['id']}.html")
    with ignoring_broken_pipe():
        if str(path) == "-":
            print_text(page, nl=False)
            return status
        _save(path, page)
        if as_json:
            print_json(
                {
                    "run_id": document.run["id"],
                    "path": str(path),
                    "bytes": path.stat().st_size,
                    **preview.to_json(),
                }
            )
        else:
            print_text(f"{path}  {_size(path.stat().st_size)}, {preview.line()}")
    return status


def _show_preview(preview: Preview, *, as_json: bool) -> None:
    with ignoring_broken_pipe():
        if as_json:
            print_json(preview.to_json())
        else:
            for line in preview.lines():
                print_text(line)


def _save(path: Path, page: str) -> None:
    from callsheet.runtime.reporting import save_page  # noqa: PLC0415 - as above

    try:
        save_page(path, page)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise CallsheetError.single("CFG014", why, help="name a file that can be written") from error


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
