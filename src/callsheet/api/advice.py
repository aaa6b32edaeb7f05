"""Rewrites a diagnostic's help for library users: arguments of the Python API instead of CLI options."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import Plan
from callsheet.ports.builtin import BuiltinSettings, builtin_tools

_OPTION = re.compile(r"--var (\w+)=…")
_UNKNOWN_TOOL = "CHK040"
_CHANGED_TOOLS = "JRN021"
_CHANGED_POLICY = "JRN023"


def advised(plan: Plan, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings about a plan, with help that names arguments of the Python API."""
    return tuple(_advised(plan, d) for d in diagnostics)


@contextmanager
def in_words_of_the_library() -> Generator[None]:
    """Rewrite the help of a CallsheetError raised in the block, so that it names a Python argument."""
    try:
        yield
    except CallsheetError as error:
        diagnostics = [_argument_for_option(d) for d in error.diagnostics]
        if diagnostics == list(error.diagnostics):
            raise
        raise CallsheetError(diagnostics, error.source) from error


def _argument_for_option(diagnostic: Diagnostic) -> Diagnostic:
    if diagnostic.code == _CHANGED_POLICY:
        help_text = (diagnostic.help or "").replace(
            "--accept-changed-policy", "resume(…, accept_changed_policy=True)"
        )
        return replace(diagnostic, help=help_text)
    if diagnostic.code != _CHANGED_TOOLS:
        return diagnostic
    return replace(diagnostic, help="review the changes, then resume(…, accept_changed_tools=True)")


def _advised(plan: Plan, diagnostic: Diagnostic) -> Diagnostic:
    help_ = diagnostic.help or ""
    if diagnostic.code == _UNKNOWN_TOOL:
        step = plan.step(diagnostic.step or "")
        if step is not None and step.call is not None and step.call.tool in _builtin_names():
            help_ = "it is a built-in tool: Runtime(builtins=True)"
        elif help_.startswith("`callsheet tools`"):
            help_ = "give it to the runtime: Runtime(tools=[…]), or mcp=… for servers"
    help_ = _OPTION.sub(r"inputs={'\1': …}", help_)
    return replace(diagnostic, help=help_ or None)


def _builtin_names() -> frozenset[str]:
    folder = Path()
    return frozenset(
        t.spec.name for t in builtin_tools(BuiltinSettings(workspace=folder, data=folder, host=True))
    )
