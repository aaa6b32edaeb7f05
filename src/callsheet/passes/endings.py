"""Finds file extensions that are parsed as field access: `"$title.md"` is the field md of $title."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, Cast, Ref, Template, Value
from callsheet.passes.finding import Finding, Subject

_ENDINGS = frozenset({
    "md", "txt", "csv", "tsv", "json", "jsonl", "yaml", "yml", "toml", "xml", "html", "htm", "pdf", "log",
    "docx", "xlsx", "pptx", "png", "jpg", "jpeg", "svg", "gif", "py", "js", "ts", "sh", "sql", "zip", "ltp",
})  # fmt: skip
_NAMES_A_FILE = ("path", "file", "dest")
"""An argument whose name contains one of these names a file."""


def endings_read_as_fields(subject: Subject) -> Iterator[Finding]:
    """CHK033 for a file name that ends in a field access which looks like a file extension."""
    for number, step in enumerate(subject.plan.steps):
        if not isinstance(step.action, Call):
            continue
        loop = None if step.foreach is None else step.foreach.var
        for value in _files(subject, step.action):
            ref = _last(value)
            if ref is None or not ref.path or ref.path[-1] not in _ENDINGS:
                continue
            if ref.name == loop or not _has_fields(subject, ref.name):
                yield _finding(number, ref)


def _finding(step: int, ref: Ref) -> Finding:
    whole = ref.dotted
    before, _, ending = whole.rpartition(".")
    return Finding(
        "CHK033",
        Severity.HINT,
        f"${whole} is the field {ending} of ${before}; the name is empty if the value has no such field",
        step,
        ref.span,
        f"if .{ending} is the file extension, write ${{{before}}}.{ending}",
        (ref.name, ending),
    )


def _files(subject: Subject, call: Call) -> Iterator[Value]:
    """The arguments of a call that name a file."""
    signature = None if subject.tools is None else subject.tools.get(call.tool)
    names = ("path",) if signature is None and "FILE" in call.tool else ()
    positional = zip(names if signature is None else signature.parameters, call.positional, strict=False)
    for name, value in (*positional, *call.named):
        if any(word in name.lower() for word in _NAMES_A_FILE):
            yield value


def _last(value: Value) -> Ref | None:
    """The reference at the end of a value, if it ends with one."""
    last = value.parts[-1] if isinstance(value, Template) else value
    return last if isinstance(last, Ref) else None


def _has_fields(subject: Subject, name: str) -> bool:
    """Whether some step casts the variable to JSON, so that it may really have fields."""
    outputs = (subject.plan.steps[d.step].output for d in subject.flow.definitions.get(name, ()))
    return any(output is not None and output.cast is Cast.JSON for output in outputs)
