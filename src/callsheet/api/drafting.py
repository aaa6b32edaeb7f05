"""Drafts a policy file for the available tools; `callsheet policy init` writes it.

In: tool declarations. Out: TOML text with an entry for each tool that is neither built in nor a transform.
What a server says about its own tools appears only in comments: the operator decides what holds.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping

from callsheet.ir import Effect
from callsheet.ports.tools import ToolSpec

_OWN = ("builtin", "transform", "people")
_WIDEST = 100
_RECEIVERS = frozenset(
    ("to", "recipient", "recipients", "email", "address", "channel", "url", "uri", "host", "endpoint")
)
"""Argument names that usually hold the receiver; written as a commented suggestion for the operator."""
_HEAD = """\
# What plans may do here, written by `callsheet policy init`.
#   callsheet verify PLAN --policy {file}   proves a plan against it
#   callsheet run PLAN --policy {file}      proves it, and checks each call against it
# An unchanged entry allows least: read what the tool does, then loosen what is too strict.
schema = 1
extends = "{base}"

[audience.trusted]
# Who may see private data beside you and the model: hosts such as "api.internal" or "*.corp.example",
# mail addresses such as "*@corp.example".
hosts = []
mail = []

# [sources]
# "file:docs/**" = {{ conf = "pub" }}      # everybody may read it
# "file:keys/**" = {{ conf = "secret" }}   # nobody may, not even the model
# "url:api.internal" = {{ conf = "priv" }}
"""
_KEYS = """
# In each entry: `egress`: does a call tell somebody outside what its arguments are? `audience_arg`: the
# argument that says whom; without it nobody knows, and only public data may go there. `destructive`: does it
# delete, pay, send, or do what cannot be undone? Then each call needs approval. `control`: the arguments that
# decide what is done, and must not come from untrusted data. `returns`: T/ for trusted results, else U/;
# and who may read them. `no_echo`: its results repeat none of its arguments. `pin`: the declaration for
# which this was written.
"""


def draft_policy(specs: Mapping[str, ToolSpec], base: str, file: str) -> str:
    """The text of a policy that extends `base`, with an entry for each tool that is not callsheet's own.

    `specs` are declarations by the name that plans use; `file` is the file name used in the comments.
    """
    parts = [_HEAD.format(base=base, file=file)]
    foreign = {name: spec for name, spec in specs.items() if spec.origin not in _OWN}
    if foreign:
        parts.append(_KEYS)
    for origin in dict.fromkeys(spec.origin for spec in foreign.values()):
        parts.append(f"\n# {'-' * 8} {_on_one_line(origin)}\n")
        parts.extend(_entry(name, spec) for name, spec in foreign.items() if spec.origin == origin)
    return "".join(parts)


def _entry(name: str, spec: ToolSpec) -> str:
    lines = ["", *_comments(name, spec), f"[tools.{json.dumps(policy_name(name, spec))}]"]
    only_reads = spec.is_declared and spec.effect.only_reads
    reaches = not (spec.is_declared and spec.effect is Effect.PURE)
    lines.append(f"egress = {_word(reaches)}")
    if reaches and (receiver := _receiver(spec)) is not None:
        lines.append(f"# audience_arg = {json.dumps(receiver)}")
    lines.append(f"destructive = {_word(not only_reads)}")
    lines.append(f"control = {json.dumps(list(spec.parameter_names), ensure_ascii=False)}")
    if spec.is_declared and spec.effect in (Effect.PURE, Effect.READ, Effect.IDEMPOTENT):
        lines.append("idempotent = true")
    lines.append('returns = "U/priv"')
    if spec.pin is not None and spec.origin.startswith("mcp:"):
        lines.append(f"pin = {json.dumps(spec.pin)}")
    return "\n".join(lines) + "\n"


def _receiver(spec: ToolSpec) -> str | None:
    """The argument whose name suggests that it holds the receiver."""
    return next((name for name in spec.parameter_names if name.casefold() in _RECEIVERS), None)


def policy_name(name: str, spec: ToolSpec) -> str:
    """The name of a tool in a policy: `mcp:SERVER/TOOL` for a server's tool, else `@NAME`."""
    return f"{spec.origin}/{spec.executor}" if spec.origin.startswith("mcp:") else f"@{name}"


def _comments(name: str, spec: ToolSpec) -> Iterator[str]:
    yield f"# @{name} ({', '.join(_on_one_line(argument) for argument in spec.parameter_names)})"
    if spec.description.strip():
        yield f"#   it says: {_on_one_line(spec.description)}"
    if spec.is_declared:
        yield f"#   you declared it: {spec.effect}"


def _on_one_line(text: str) -> str:
    """The start of a text on one line, with control characters escaped, so that it cannot end a comment."""
    seen = (c if unicodedata.category(c)[0] != "C" else f"\\u{ord(c):04x}" for c in " ".join(text.split()))
    line = "".join(seen)
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _word(flag: bool) -> str:
    return "true" if flag else "false"
