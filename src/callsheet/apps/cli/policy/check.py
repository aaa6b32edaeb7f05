"""`callsheet policy check`: reports all errors in policy files, with carets."""

from __future__ import annotations

from dataclasses import replace

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import format_diagnostics, json_rows, print_json
from callsheet.apps.wording.values import preview
from callsheet.diagnostics import CallsheetError, Source, Span


@click.command()
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@options.as_json
def check(policies: tuple[str, ...], as_json: bool) -> int:
    """Say what is wrong with each POLICY, a file or a shipped one; exit 2 if there is an error."""
    rows: list[dict[str, object]] = []
    is_wrong = False
    for policy in policies:
        try:
            _validate(policy)
        except CallsheetError as error:
            is_wrong = True
            rows.extend(json_rows(error.diagnostics, error.source or Source(policy, "")))
            if not as_json:
                click.echo(format_diagnostics(error.diagnostics, error.source))
        else:
            if not as_json:
                click.echo(f"{preview(policy, 1_000)}: ok")
    if as_json:
        print_json({"ok": not is_wrong, "diagnostics": rows})
    return Exit.WRONG if is_wrong else Exit.OK


def _validate(policy: str) -> None:
    """Read a policy and make its predicates ready; raises CallsheetError with all that is wrong."""
    from callsheet.api.policies import load_policy, policy_source  # noqa: PLC0415 - not for --help
    from callsheet.policy.predicates import faults_of  # noqa: PLC0415 - as above
    from callsheet.policy.toml_spans import key_spans  # noqa: PLC0415 - as above

    rules = load_policy(policy).rules
    faults = faults_of(rules)
    if faults:
        source = policy_source(policy)
        keys = key_spans(source.text)
        placed = [
            replace(
                fault, span=_place(rules[number].when, fault.span, keys.get(("rule", number, "when")), source)
            )
            for number, fault in faults
        ]
        raise CallsheetError(placed, source)


def _place(when: str, within: Span | None, key: Span | None, source: Source) -> Span | None:
    """Where a predicate, or what is wrong `within` it, stands in a file.

    That is behind the `key` of its rule; at the key for one with escapes, and nowhere (None) for one of
    what the file extends.
    """
    at = source.text.find(when, 0 if key is None else key.end)
    if at < 0 or (key is not None and source.text[key.end : at].strip(" \t='\"\n")):
        return key
    return Span(at, at + len(when)) if within is None else Span(at + within.start, at + within.end)
