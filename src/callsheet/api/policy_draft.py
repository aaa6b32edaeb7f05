"""Drafts a policy for the available tools: a line for each class of tools, with what was assumed as comments.

In: the declarations of tools, and answers to what their names do not tell. Out: the text of a policy file.
What nobody declared is assumed from the names of a tool and its arguments, and is marked as such.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple, cast

from callsheet.api.policies import SHIPPED, load_policy, policies_beside, policy_source
from callsheet.api.proving import NO_ASSUMPTIONS, Assumptions, Proof, prove
from callsheet.diagnostics import CallsheetError, Source
from callsheet.ir import Plan, ToolClass, canonical_tool_name
from callsheet.ir.labels import TRUSTED, UNKNOWN, Label
from callsheet.passes.verify import Violation
from callsheet.policy.addresses import AddressRefused, host_address, parse_url
from callsheet.policy.audiences import mailbox_of
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.calls import Rule
from callsheet.policy.model import Policy, ToolRule, When
from callsheet.policy.policy_file import read_policy
from callsheet.policy.tool_facts import facts_of
from callsheet.policy.urls import is_metadata
from callsheet.ports.tools import Registry, Tool, ToolSpec

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


_MAIL = re.compile(r"[^@\s,;<>\"*]+@[^@\s,;<>\"*]+")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
_MOST_ROUNDS = 60
_CLASS = ("class",)


class Line(NamedTuple):
    """A line of a policy: a value for a key of a table, or members for the list that the key holds."""

    table: tuple[str, ...]
    key: str
    value: Any
    is_member: bool = False

    def __str__(self) -> str:
        shown = f"+ {json.dumps(self.value)}" if self.is_member else f"= {_toml(self.value)}"
        return f"{_header(self.table)} {_key(self.key)} {shown}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What has to be added to a policy so that plans pass, and what no line allows.

    `text` is a policy that extends the other one by these lines. `refused` are the violations that remain,
    `questions` how often the plans would ask.
    """

    lines: tuple[Line, ...]
    text: str
    refused: tuple[Violation, ...]
    questions: int

    @property
    def ok(self) -> bool:
        """Whether all plans pass under the policy with these lines."""
        return not self.refused


def proposal(
    plans: Sequence[Plan], policy: str, registry: Registry, assumed: Assumptions = NO_ASSUMPTIONS
) -> Proposal:
    """The smallest change of a policy under which all these plans pass, as far as lines of it can allow them.

    `policy` is the name or path by which the proposed one extends it. Raises CallsheetError for one that is
    invalid or missing.
    """
    base = load_policy(policy)
    beside = policies_beside(Path(policy).parent if policy not in SHIPPED else Path())

    def find(name: str) -> Source | None:
        return policy_source(policy) if name == policy else beside(name)

    def proofs(lines: Sequence[Line]) -> list[Proof] | None:
        source = Source("proposed", overlay_text(base, lines, policy))
        try:
            other = read_policy(source, find) if lines else base
        except CallsheetError:
            return None
        return [prove(plan, other, registry, assumed) for plan in plans]

    lines: list[Line] = []
    given_up: set[tuple[int, Violation]] = set()
    now = proofs(lines) or []
    for _ in range(_MOST_ROUNDS):
        found = next(_open(now, given_up), None)
        if found is None:
            break
        number, violation = found
        for candidate in _candidates(violation, plans[number], now[number].policy, registry):
            others = None if candidate in lines else proofs([*lines, candidate])
            if others is not None and violation not in others[number].verdict.violations:
                lines.append(candidate)
                now = others
                break
        else:
            given_up.add(found)
    lines = _needed(lines, proofs, _count(now))
    now = proofs(lines) or []
    refused = tuple(violation for proof in now for violation in proof.verdict.violations)
    questions = sum(each.kind == "approve" for proof in now for each in proof.obligations)
    return Proposal(tuple(lines), overlay_text(base, lines, policy), refused, questions)


def _open(proofs: Sequence[Proof], given_up: set[tuple[int, Violation]]) -> Iterator[tuple[int, Violation]]:
    for number, proof in enumerate(proofs):
        yield from ((number, each) for each in proof.verdict.violations if (number, each) not in given_up)


def _count(proofs: Sequence[Proof]) -> int:
    return sum(len(proof.verdict.violations) for proof in proofs)


def _needed(
    lines: list[Line], proofs: Callable[[Sequence[Line]], list[Proof] | None], refused: int
) -> list[Line]:
    """The lines without those that change nothing about what is refused."""
    for line in list(lines):
        rest = [each for each in lines if each is not line]
        without = proofs(rest)
        if without is not None and _count(without) <= refused:
            lines = rest
    return lines


# ---------------------------------------------------------------- what may help


def _candidates(violation: Violation, plan: Plan, policy: Policy, registry: Registry) -> Iterator[Line]:
    """Lines that may let a step pass, the least permissive first."""
    step = plan.step(violation.step or "")
    call = None if step is None else step.call
    tool = None if call is None else fold(call.tool)
    known = None if tool is None else registry.get(tool)
    match violation.rule:
        case Rule.UNKNOWN_TOOL if known is not None:
            yield Line(_CLASS, str(_class_of(known)), written_name(known.spec.name, known.spec), True)
        case Rule.DENIED_TOOL if tool is not None and policy.allowed_tools is not None:
            yield Line(("defaults",), "allow", f"@{tool}", True)
        case Rule.FLOW | Rule.IMPLICIT:
            receiver = violation.flow[-1] if violation.flow else ""
            if tool is not None and tool not in BUILTINS:
                yield _asking(tool, known, When.IF_UNTRUSTED_OR_OUTSIDE)
            yield from _trusting(receiver)
        case Rule.CONTROL if tool is not None and tool not in BUILTINS:
            yield _asking(tool, known, When.IF_UNTRUSTED_OR_OUTSIDE)
        case Rule.ADDRESS:
            yield from _reaching(violation.message)
        case Rule.PATH:
            path = re.match(r"(/\S+) is not among", violation.message)
            if path is not None:
                yield Line(("host",), "read", path[1], True)
        case Rule.RETRY if tool is not None and tool not in BUILTINS and (known or tool in policy.tools):
            yield Line(("tools", _tool_key(tool, known)), "idempotent", True)
        case Rule.LIMIT:
            if policy.max_steps is not None and len(plan.steps) > policy.max_steps:
                yield Line(("budgets",), "max_steps", len(plan.steps))
        case Rule.REPLAN if policy.replan is None:
            yield Line(("dynamic",), "replan", {"max": 1})
        case _:
            return


def _class_of(tool: Tool) -> ToolClass:
    """The class for a tool of none: as declared or assumed, else the one of which the worst is assumed."""
    return tool.spec.declared_class or class_assumed(tool.spec) or ToolClass.ADMINISTERS


def _asking(tool: str, known: Tool | None, when: When) -> Line:
    return Line(("tools", _tool_key(tool, known)), "approval", str(when))


def _tool_key(tool: str, known: Tool | None) -> str:
    if known is not None and known.spec.origin.startswith("mcp:"):
        return f"{known.spec.origin}/{known.spec.executor}"
    return f"@{tool}"


def _trusting(receiver: str) -> Iterator[Line]:
    """Lines by which a receiver may see private data."""
    who = mailbox_of(receiver)
    if _MAIL.fullmatch(who):
        yield Line(("audience", TRUSTED), "mail", who.lower(), True)
    else:
        for host in _hosts(receiver):
            yield Line(("audience", TRUSTED), "hosts", host, True)


def _reaching(message: str) -> Iterator[Line]:
    """Lines by which a host of this message may be reached; none for a number, as of a metadata service."""
    for host in _hosts(message):
        if not is_metadata(host) and host_address(host) is None:
            yield Line(("network",), "hosts", host, True)
            yield Line(("audience", TRUSTED), "hosts", host, True)


def _hosts(text: str) -> Iterator[str]:
    """The hosts that a text begins with or names as an address."""
    for word in text.split():
        try:
            host = parse_url(word).host if "://" in word else word
        except AddressRefused:
            continue
        if "." in host and _HOST.fullmatch(host):
            yield host.lower()
            return


# ---------------------------------------------------------------- policies with lines


def overlay_text(policy: Policy, lines: Sequence[Line], extends: str) -> str:
    """The text of a policy that extends another one by these lines; lists keep what the other one has."""
    tables: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        table = tables.setdefault(line.table, dict(_written_before(policy, line.table)))
        if line.is_member:
            table[line.key] = [*(table.get(line.key) or _members(policy, line)), line.value]
        else:
            table[line.key] = line.value
    blocks = [f"schema = 1\nextends = {json.dumps(extends)}"]
    for table, values in tables.items():
        rows = [f"{_key(key)} = {_toml(value)}" for key, value in values.items()]
        note = (
            ["# what these tools do is assumed from their names, if nobody declared it"]
            if table == _CLASS
            else []
        )
        blocks.append("\n".join([_header(table), *note, *rows]))
    return "\n\n".join(blocks) + "\n"


def _members(policy: Policy, line: Line) -> list[str]:
    """What the list of a line has in the policy as it is."""
    match line.table:
        case ("audience", name):
            audience = next((each for each in policy.audiences if each.name == name), None)
            return [] if audience is None else list(getattr(audience, line.key))
        case ("network",):
            return list(policy.egress_hosts or ())
        case ("host",):
            return list(policy.host_read)
        case ("defaults",):
            return sorted(f"@{name}" for name in policy.allowed_tools or ())
        case _:
            return []


def _written_before(policy: Policy, table: tuple[str, ...]) -> Mapping[str, Any]:
    """The keys that a table has to repeat, since it replaces the one of the extended policy."""
    match table:
        case ("audience", name):
            audience = next((each for each in policy.audiences if each.name == name), None)
            known = {} if audience is None else {"hosts": audience.hosts, "mail": audience.mail}
            return {key: list(value) for key, value in known.items() if value}
        case ("tools", key):
            rule = policy.tools.get(key if key.startswith("mcp:") else key.removeprefix("@"))
            return {} if rule is None else _settings(rule)
        case _:
            return {}


def _settings(rule: ToolRule) -> dict[str, Any]:
    """The keys of a tool's table that differ from their defaults."""
    plain = ToolRule()
    own = {field.name: getattr(rule, field.name) for field in fields(rule)}
    changed = {name: value for name, value in own.items() if value != getattr(plain, name)}
    if rule.returns == UNKNOWN:
        changed.pop("returns", None)
    return {name: _plain(value) for name, value in changed.items() if name not in ("does", "place_arg")}


def _plain(value: Any) -> object:
    if isinstance(value, Label | When):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, object]", value).items()}
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _header(table: tuple[str, ...]) -> str:
    return f"[{'.'.join(map(_key, table))}]"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        rows = cast("dict[str, object]", value).items()
        return "{ " + ", ".join(f"{_key(key)} = {_toml(each)}" for key, each in rows) + " }"
    return json.dumps(value, ensure_ascii=False)
