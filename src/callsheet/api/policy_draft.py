"""Drafts a policy for the available tools: a line for each class of tools, with what was assumed as comments.

In: the declarations of tools, and answers to what their names do not tell. Out: the text of a policy file.
What nobody declared is assumed from the names of a tool and its arguments, and is marked as such.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import NamedTuple, cast

from callsheet.api.policies import load_policy
from callsheet.ir import ToolClass, canonical_tool_name
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.tool_facts import facts_of
from callsheet.ports.tools import ToolSpec

_OWN = ("builtin", "transform", "people")
_WIDEST = 108
_MOST_UNKNOWN = 20
"""So many tools that no class has are named in the file."""
_MOST_NAMES = 8
"""How many tools of a class are named one by one, before those with the same first word become a pattern."""

_VERBS: Mapping[ToolClass, str] = {
    ToolClass.DELETES: "cancel cleanup clear delete destroy discard drop erase prune purge remove reset rm"
    " trash wipe",
    ToolClass.PAYS: "book buy checkout order pay purchase reserve subscribe",
    ToolClass.ADMINISTERS: "ban block grant invite kick revoke",
    ToolClass.RUNS: "deploy eval exec execute run shell",
    ToolClass.SENDS: "comment email forward message notify post publish reply send share tweet upload",
    ToolClass.WRITES: "add append apply archive assign commit copy create edit fork insert label log make"
    " mark merge move push put rename reopen reschedule save schedule set store submit sync transition"
    " update write",
    ToolClass.READS: "analyze browse calculate check compare convert count describe diff echo fetch find"
    " format get has history is list lookup open parse query read resolve retrieve scan search show stat"
    " status summarize tree validate view",
}
_OBJECTS: Mapping[ToolClass, str] = {
    ToolClass.PAYS: "invoice money payment payments purchase transaction transfer",
    ToolClass.ADMINISTERS: "access account member members password permission permissions role roles secret"
    " token user users",
    ToolClass.SENDS: "comment discussion gist issue pull release repository review ticket",
}
"""Words that make a change of theirs more than that: `send_money`, `update_password`, `create_issue`."""
_PLACE = frozenset({"owner", "repo"})
"""Arguments of tools that write where others read, in a repository at a forge."""
_REVISIONS = frozenset({"branch", "branch_name", "commit", "ref", "revision"})
_CONTENTS = frozenset({"content", "data", "entry", "event", "level", "line", "message", "text"})
_OF_VERB = {word: does for does, words in _VERBS.items() for word in words.split()}
_OF_OBJECT = {word: does for does, words in _OBJECTS.items() for word in words.split()}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_WORDS: Mapping[ToolClass, str] = {
    ToolClass.COMPUTES: "they depend on their arguments alone",
    ToolClass.READS: "they change nothing, and only the host of an address sees what was asked for",
    ToolClass.WRITES: "they change what is yours, can be undone, and tell nobody",
    ToolClass.SENDS: "they tell somebody; you are asked unless it is public, or for somebody you trust",
    ToolClass.DELETES: "they cannot be undone: you are asked each time",
    ToolClass.PAYS: "they pay or order: you are asked each time",
    ToolClass.ADMINISTERS: "they change who may do what: you are asked each time",
    ToolClass.RUNS: "they run programs: you are asked each time",
}


class Asked(NamedTuple):
    """A question about a tool that its declaration does not answer, and the possible answers."""

    tool: str
    question: str
    options: tuple[str, ...]


Ask = Callable[[Asked], "str | None"]
"""Asks a person; None if nobody answers."""


@dataclass(slots=True)
class Draft:
    """A policy in the making: tools by class, declared or assumed; the arguments that name who is told."""

    declared: dict[ToolClass, list[str]] = field(default_factory=dict[ToolClass, list[str]])
    assumed: dict[ToolClass, list[str]] = field(default_factory=dict[ToolClass, list[str]])
    told: dict[str, str] = field(default_factory=dict[str, str])
    optional: list[str] = field(default_factory=list[str])
    """Tools that can be called without saying who is told."""
    unknown: list[str] = field(default_factory=list[str])

    @property
    def count(self) -> int:
        """The number of tools that it describes."""
        return sum(len(names) for each in (self.declared, self.assumed) for names in each.values())


def draft_of(specs: Mapping[str, ToolSpec], ask: Ask = lambda _: None) -> Draft:
    """What is known or assumed of each tool that is not callsheet's own; `ask` is for where neither helps."""
    draft = Draft()
    for name, spec in specs.items():
        if spec.origin in _OWN or fold(name) in BUILTINS:
            continue
        written = written_name(name, spec)
        declared = spec.declared_class
        does = declared or class_assumed(spec) or _answered(written, spec, ask)
        if does is None:
            draft.unknown.append(written)
            continue
        (draft.declared if declared else draft.assumed).setdefault(does, []).append(written)
        if does in (ToolClass.SENDS, ToolClass.PAYS, ToolClass.ADMINISTERS):
            told = _told(written, does, spec, ask)
            if told is not None:
                draft.told[written] = told
            if does is ToolClass.SENDS and is_optional(spec, told):
                draft.optional.append(written)
    return draft


def written_name(name: str, spec: ToolSpec) -> str:
    """The name of a tool in a policy: `SERVER__TOOL` for a server's, else its own, in lower case.

    >>> written_name("GET_ISSUE", ToolSpec("GET_ISSUE", "get_issue", origin="mcp:github"))
    'github__get_issue'
    """
    if spec.origin.startswith("mcp:"):
        name = (
            f"{canonical_tool_name(spec.origin.removeprefix('mcp:'))}__{canonical_tool_name(spec.executor)}"
        )
    return name.lower()


def class_assumed(spec: ToolSpec) -> ToolClass | None:
    """The class that the names of a tool and its arguments suggest; None if they suggest none.

    >>> class_assumed(ToolSpec("SEND_MONEY", "send_money")), class_assumed(ToolSpec("FOO", "foo"))
    (<ToolClass.PAYS: 'pays'>, None)
    >>> takes = {"properties": {"owner": {}, "repo": {}, "title": {}}}
    >>> class_assumed(ToolSpec("CREATE_ISSUE", "create_issue", "", takes))
    <ToolClass.SENDS: 'sends'>
    >>> local = {"properties": {"repo_path": {}, "branch_name": {}}}
    >>> [str(class_assumed(ToolSpec("X", name, "", local))) for name in ("git_checkout", "git_log")]
    ['writes', 'reads']
    """
    words = [word for word in re.split(r"[^a-z0-9]+", _HUMP.sub("_", spec.executor).lower()) if word]
    word = next((word for word in words if word in _OF_VERB), None)
    if word is None:
        return None
    taken = {name.casefold() for name in spec.parameter_names}
    verb = _OF_VERB[word]
    if word == "checkout" and taken & _REVISIONS:
        verb = ToolClass.WRITES
    elif word == "log" and not taken & _CONTENTS:
        verb = ToolClass.READS
    if verb is ToolClass.READS:
        return verb
    objects = [_OF_OBJECT[word] for word in words if word in _OF_OBJECT]
    facts = facts_of(spec.parameter_names)
    if ToolClass.PAYS in objects and verb is not ToolClass.DELETES:
        return ToolClass.PAYS
    if ToolClass.ADMINISTERS in objects or verb is ToolClass.ADMINISTERS:
        return ToolClass.ADMINISTERS
    if verb is ToolClass.WRITES and (objects or taken >= _PLACE):
        return ToolClass.SENDS
    tells = any(facts_of([name]).audience == name and name != "address" for name in spec.parameter_names)
    return ToolClass.SENDS if verb is ToolClass.WRITES and tells and facts.audience else verb


def _answered(name: str, spec: ToolSpec, ask: Ask) -> ToolClass | None:
    """The class that a person gives a tool."""
    arguments = ", ".join(_on_one_line(argument) for argument in spec.parameter_names)
    about = f": {_on_one_line(spec.description)}" if spec.description.strip() else ""
    question = f"{name} ({arguments}){about} What does it do?"
    given = ask(Asked(name, question, tuple(map(str, ToolClass))))
    return None if given is None else ToolClass(given)


def _told(name: str, does: ToolClass, spec: ToolSpec, ask: Ask) -> str | None:
    """The argument that says who is told, if a person has to say so; None if its name tells it."""
    parameters = spec.parameter_names
    if spec.tells is not None or not parameters or {*parameters} >= _PLACE:
        return None
    facts = facts_of(parameters)
    if facts.audience is not None or (does is ToolClass.SENDS and facts.address is not None):
        return None
    if does is not ToolClass.SENDS:
        return None
    return ask(Asked(name, f"{name}: which argument says who is told?", parameters))


def is_optional(spec: ToolSpec, told: str | None) -> bool:
    """Whether a tool may be called without saying who is told, and its schema has nobody for that case."""
    audience = told or facts_of(spec.parameter_names, None, spec.tells).audience
    properties, required = spec.parameters.get("properties"), spec.parameters.get("required", ())
    if audience is None or audience in required or not isinstance(properties, Mapping):
        return False
    schema: object = cast("Mapping[str, object]", properties).get(audience)
    return not (isinstance(schema, Mapping) and cast("Mapping[str, object]", schema).get("default"))


def draft_text(draft: Draft, base: str, file: str, missing: Sequence[str] = ()) -> str:
    """The text of the policy, which extends `base`; `file` is the name used in its comments.

    `missing` says why tools are not in it, a sentence for each place that could not be asked for them.
    """
    rest = "refused" if load_policy(base).refuse_unknown_tools else "asked about before each call"
    lines = [
        "# What plans may do here, by `callsheet policy init`. What is assumed follows from names: read it.",
        f"# Tools that no line has are {rest}, unless they declare what they do.",
        f"# `callsheet verify PLAN --policy {file}` proves a plan.",
        *_missing(missing),
        "schema = 1",
        f"extends = {json.dumps(base)}",
        "",
        "[audience.trusted]      # who may see private data, besides you and the model",
        'mail = []               # such as "ada@corp.example", or "*@corp.example" for all of a company',
        'hosts = []              # such as "api.internal" or "*.corp.example"',
    ]
    classes = [does for does in ToolClass if does in draft.declared or does in draft.assumed]
    if classes:
        lines += ["", "[class]"]
    everything = [
        name for each in (draft.declared, draft.assumed) for names in each.values() for name in names
    ]
    everything += draft.unknown
    for does in classes:
        names = [*draft.declared.get(does, ()), *draft.assumed.get(does, ())]
        lines += [f"# {_WORDS[does]}{_assumed(draft, does)}", *_list(does, _shortened(names, everything))]
    singles = {
        name: [f"audience_arg = {json.dumps(_on_one_line(told))}"] for name, told in draft.told.items()
    }
    for name in draft.optional:
        singles.setdefault(name, []).append("private_without_audience = true")
    if singles:
        lines += ["", "[tools]"]
        lines += ["# assumed: a call that names nobody tells nobody"] if draft.optional else []
        lines += [f"{json.dumps(name)} = {{ {', '.join(said)} }}" for name, said in singles.items()]
    lines += _unknown(draft.unknown, rest)
    return "\n".join(lines) + "\n"


def _missing(reasons: Sequence[str]) -> list[str]:
    """What to say of the tools that nobody could be asked for."""
    lines: list[str] = []
    for reason in reasons:
        lines += wrap(f"NOT IN HERE: {_cut(_on_one_line(reason), 2 * _WIDEST)}", _WIDEST - 2)
    if lines:
        lines += wrap("Repair that, and write this file again with --force.", _WIDEST - 2)
    return [f"# {line}" for line in lines]


def _unknown(names: Sequence[str], rest: str) -> list[str]:
    """What to say of the tools that no class has."""
    if not names:
        return []
    shown = ", ".join(_cut(_on_one_line(name), _WIDEST // 2) for name in names[:_MOST_UNKNOWN])
    more = f" and {len(names) - _MOST_UNKNOWN} more" if len(names) > _MOST_UNKNOWN else ""
    words = wrap(f"{rest.capitalize()}, since no name tells what they do: {shown}{more}", _WIDEST - 2)
    return ["", *(f"# {line}" for line in words)]


def _assumed(draft: Draft, does: ToolClass) -> str:
    """What to say of the tools of a class that nobody declared."""
    assumed, declared = draft.assumed.get(does, []), draft.declared.get(does, [])
    if not assumed:
        return " (you declared so)"
    if not declared:
        return " (assumed)"
    return f" (you declared the first {len(declared)}, the rest is assumed)"


def _shortened(names: Sequence[str], everything: Sequence[str]) -> list[str]:
    """The names; of many, those with the same beginning as one pattern, if it matches no tool but these."""
    if len(names) <= _MOST_NAMES:
        return list(names)
    shortened: dict[str, None] = {}
    for name in names:
        server, apart, own = name.rpartition("__")
        beginning = f"{server}{apart}{own.partition('_')[0]}_"
        if all(each.startswith(beginning) for each in everything if each.startswith(server + apart)):
            beginning += f"{name.removeprefix(beginning).partition('_')[0]}_"
        alike = [each for each in everything if each.startswith(beginning)]
        is_pattern = name in alike and len(alike) > 1 and all(each in names for each in alike)
        shortened[f"{beginning}*" if is_pattern else name] = None
    return list(shortened)


def _list(does: ToolClass, names: Sequence[str]) -> Iterator[str]:
    """The lines of a list in TOML."""
    quoted = [json.dumps(name) for name in names]
    whole = f"{does} = [{', '.join(quoted)}]"
    if len(whole) <= _WIDEST:
        yield whole
        return
    yield f"{does} = ["
    line = "   "
    for name in quoted:
        if len(line) + len(name) + 2 > _WIDEST:
            yield line
            line = "   "
        line += f" {name},"
    yield line
    yield "]"


def _on_one_line(text: str) -> str:
    """The start of a text on one line, with control characters escaped, so that it cannot end a comment."""
    seen = (c if unicodedata.category(c)[0] != "C" else f"\\u{ord(c):04x}" for c in " ".join(text.split()))
    return _cut("".join(seen), _WIDEST)


def _cut(text: str, widest: int) -> str:
    return text if len(text) <= widest else f"{text[: widest - 1]}…"


# ---------------------------------------------------------------- what may help


# ---------------------------------------------------------------- policies with lines
