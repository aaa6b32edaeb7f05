"""`callsheet call`: one tool, as a run of a plan with one step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli.arguments import NamedPlan, parse_variables
from callsheet.apps.cli.run import RunArguments, execute_run, run_options
from callsheet.apps.cli.tools import plan_name_of
from callsheet.frontends.spelling import Syntax

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
    from callsheet.apps.setup import Setup


@dataclass(frozen=True, slots=True)
class OneCall(NamedPlan):
    """The plan that calls a tool with a variable for each argument, and answers with its result."""

    arguments: tuple[str, ...] = ()

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The plan."""
        from callsheet.apps.operations.beginnings import one_call  # noqa: PLC0415 - not for --help
        from callsheet.apps.operations.reading import text_of  # noqa: PLC0415 - as above

        source = one_call(self.plan, self.arguments)
        return text_of(None, source, syntax=self.syntax, variables=variables)


@click.command()
@click.argument("tool", metavar="TOOL")
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@run_options
def call(tool: str, values: tuple[str, ...], **arguments: Any) -> int:
    """Call TOOL with these arguments and print its result.

    This is a run of a plan with one step: the tool is checked, a policy and approvals guard the call, and the
    journal has it. A VALUE is JSON, otherwise text; a secret is given with --secret NAME=env:VARIABLE.
    TOOL is written as in a plan, or SERVER/TOOL.

    \b
    Examples:
      callsheet call read_file path=notes.txt
      callsheet call github/list_issues repo=octo/demo state=open --policy workspace
      callsheet call list_issues repo=octo/demo --dry-run
    """
    if arguments["variables"]:
        raise click.UsageError("--var is for plans: give arguments of the tool as NAME=VALUE")
    name = plan_name_of(tool)
    texts = _as_declared(arguments["setup"], name, values)
    secrets = [each.partition("=")[0] for each in arguments["secrets"]]
    plan = OneCall(name, Syntax.LTP, None, (*parse_variables(texts, "argument"), *secrets))
    arguments["variables"] = texts
    return execute_run(RunArguments(plan=plan, **arguments))


def _as_declared(setup: Setup, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values; those of arguments that are declared as texts are quoted, so that 5 stays a text.

    Raises CallsheetError (CFG011) for an argument whose name a plan cannot write.
    """
    import json  # noqa: PLC0415 - not for --help

    from callsheet.apps.operations.beginnings import require_names  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above

    require_names(name, (value.partition("=")[0] for value in values if "=" in value))
    found = DeclaredTools(setup).known().get(name)
    properties: Any = {} if found is None else found.spec.parameters.get("properties") or {}
    texts: list[str] = []
    for value in values:
        argument, equals, text = value.partition("=")
        is_text = isinstance(properties.get(argument), dict) and properties[argument].get("type") == "string"
        is_quoted = text[:1] == text[-1:] == '"' and len(text) > 1
        texts.append(f"{argument}={json.dumps(text)}" if equals and is_text and not is_quoted else value)
    return tuple(texts)
