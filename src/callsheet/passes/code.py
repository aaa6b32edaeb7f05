"""Finds data interpolated into code (code injection), and declared files that no program can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from callsheet.diagnostics import Severity
from callsheet.ir import Call, ListExpr, Literal
from callsheet.ir.expr import refs_of
from callsheet.passes.finding import Finding, Subject
from callsheet.policy.paths import PathRefused, workspace_path

CODE_ARGUMENTS: Mapping[str, str] = {"EXEC_CODE": "code", "SHELL_EXEC": "code", "HOST_EXEC": "command"}
"""By tool: the argument that is executed as code or as a command line; it is the first positional one."""


def data_in_code(subject: Subject) -> Iterator[Finding]:
    """CHK050 for each call whose code argument contains a variable (the first one is named)."""
    for number, step in enumerate(subject.plan.steps):
        if not isinstance(step.action, Call) or step.action.tool not in CODE_ARGUMENTS:
            continue
        name = CODE_ARGUMENTS[step.action.tool]
        value = dict(step.action.named).get(name)
        if value is None and step.action.positional:
            value = step.action.positional[0]
        ref = None if value is None or isinstance(value, Literal) else next(refs_of(value), None)
        if ref is not None:
            yield Finding(
                "CHK050",
                Severity.WARNING,
                f"${ref.name} becomes part of the {name} that @{step.action.tool} runs",
                number,
                ref.span or step.action.span,
                "whoever controls that data controls the code: pass it in a file, or use @SELECT, @CALC, "
                "@FORMAT",
                (ref.name,),
            )


def files_outside(subject: Subject) -> Iterator[Finding]:
    """CHK045 for each path that a program is declared to read and that leads out of the workspace."""
    for number, step in enumerate(subject.plan.steps):
        if not isinstance(step.action, Call) or step.action.tool not in ("EXEC_CODE", "SHELL_EXEC"):
            continue
        reads = dict(step.action.named).get("reads")
        for path in reads.items if isinstance(reads, ListExpr) else ():
            if isinstance(path, Literal) and isinstance(path.value, str):
                try:
                    workspace_path(path.value)
                except PathRefused as error:
                    yield Finding(
                        "CHK045",
                        Severity.ERROR,
                        f"a program cannot read {path.value!r}: {error}",
                        number,
                        path.span or step.action.span,
                        "name files, folders and globs of the workspace",
                    )
