"""`callsheet policy check`: reports all errors in policy files, with carets."""

from __future__ import annotations

from dataclasses import replace

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import format_diagnostics, json_rows, print_json
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError, Source, Span


@click.command()
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@options.as_json
def check(policies: tuple[str, ...], as_json: bool) -> int:
    """Report errors in each POLICY, a file or a built-in policy; the exit status is 2 if there is one."""
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
    """Load a policy and compile its predicates. Raises CallsheetError with all errors."""
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
    """The span in a file of a predicate, or of the error `within` it.

    The predicate follows the `key` of its rule. The span is that of the key if the predicate has escapes, and
    None if it belongs to an extended policy.
    """
    at = source.text.find(when, 0 if key is None else key.end)
    if at < 0 or (key is not None and source.text[key.end : at].strip(" \t='\"\n")):
        return key
    return Span(at, at + len(when)) if within is None else Span(at + within.start, at + within.end)
