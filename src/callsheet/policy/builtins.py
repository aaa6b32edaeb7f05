"""The security traits of the built-in tools, and how a policy's tool entries extend them.

In: a folded tool name and a policy. Out: its traits, None for an unknown tool. Data only; the rules draw the
conclusions.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from callsheet.ir.labels import LITERAL, UNKNOWN, Label
from callsheet.ir.operations import MODEL_OPERATIONS, canonical_tool_name
from callsheet.policy.classes import rule_of
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.model import Policy, ToolRule, When

PUBLIC_WORLD = Label(True)
"""The label of data that everybody can read and anybody may have written."""
PERSON = Label(False, UNKNOWN.readers)
"""The label of what the run's own user says."""


class Reach(Enum):
    """Who learns a call's arguments, and that the call is made."""

    NOBODY = "nobody"
    USER = "the user"
    MODEL = "the model"
    MEMORY = "later runs"
    WORLD = "everybody"
    ADDRESS = "the host of the address"
    RECIPIENT = "the recipients"


class PathUse(Enum):
    """What a call does with its path argument."""

    READ = "read"
    WRITE = "write"
    HOST = "read on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The properties of a tool that the rules depend on.

    - `parameters`: names of positional arguments.
    - `reach`: who learns the arguments.
    - `address`, `audience`, `path`: names of the arguments that hold an address, recipients, a path;
      `content`: those of what is written to a file.
    - `control`: names of the arguments that decide what is done.
    - `reads`: what its programs see of the workspace where the call does not say, as in `ToolRule`.
    - `returns`: the label of what the tool adds from outside. The result may also repeat the arguments,
      unless there is `no_echo`; a tool that `composes` may combine them freely.
    - `fields`: the labels of the fields of what it returns; then `returns` is the join of all of them.
    - `repeatable`: whether a call may be made again; if not, only under an idempotency `key`.
    """

    parameters: tuple[str, ...] = ()
    reach: Reach = Reach.NOBODY
    address: str | None = None
    audience: str | None = None
    trusted_audience: tuple[str, ...] = ()
    private_without_audience: bool = False
    private_to_named: bool = False
    path: str | None = None
    path_use: PathUse = PathUse.READ
    content: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    returns: Label = LITERAL
    fields: FieldLabels | None = None
    links_known: bool = False
    no_echo: bool = False
    composes: bool = False
    runs_code: bool = False
    destructive: bool = False
    on_host: bool = False
    repeatable: bool = True
    key: str | None = None
    approval: When = When.NEVER


_PLACE = Traits(parameters=("path",), path="path", control=("path",), returns=UNKNOWN)
_MODEL = Traits(reach=Reach.MODEL, composes=True)
_OF_CODE = (
    "code", "command", "cmd", "script", "program", "source", "args", "argv", "flags", "env", "environment",
    "interpreter", "entrypoint", "cwd", "reads",
)  # fmt: skip
"""Control arguments of tools that run programs, under all their usual names."""
_OF_PACKAGES = (
    "language", "packages", "package", "name", "names", "version", "versions", "spec", "requirements",
    "requirement", "constraints", "file", "path", "source", "url", "urls", "index", "index_url",
    "extra_index_url", "extra_index_urls", "registry", "repository", "repo", "channel", "channels",
    "find_links", "mirror", "proxy", "trusted_host", "options", "flags", "args", "env", "manager",
)  # fmt: skip
"""Control arguments of package installers, under all their usual names."""
_CODE = Traits(
    parameters=("code", "language", "stdin", "reads"),
    control=(*_OF_CODE, "language"),
    runs_code=True,
    composes=True,
)
_ANSWER = Traits(reach=Reach.USER)
_CHANGE = Traits(path="path", path_use=PathUse.WRITE, control=("path",))

BUILTINS = MappingProxyType(
    {
        "WEB_SEARCH": Traits(parameters=("query",), reach=Reach.WORLD, returns=PUBLIC_WORLD),
        "FETCH_PAGE": Traits(parameters=("url",), reach=Reach.ADDRESS, address="url", returns=PUBLIC_WORLD),
        "EXEC_CODE": _CODE,
        "SHELL_EXEC": replace(_CODE, parameters=("code", "stdin", "reads"), control=_OF_CODE),
        "INSTALL_PKG": Traits(
            parameters=("language", "packages"),
            reach=Reach.WORLD,
            control=_OF_PACKAGES,
            returns=PUBLIC_WORLD,
        ),
        "READ_FILE": _PLACE,
        "WRITE_FILE": replace(_CHANGE, parameters=("path", "content"), content=("content",)),
        "EDIT_FILE": replace(
            _CHANGE, parameters=("path", "old", "new"), content=("old", "new"), returns=UNKNOWN
        ),
        "SEARCH_FILES": Traits(
            parameters=("pattern", "path", "glob"), path="path", control=("path", "glob"), returns=UNKNOWN
        ),
        "HOST_EXEC": Traits(
            parameters=("command",),
            reach=Reach.WORLD,
            control=("command",),
            returns=UNKNOWN,
            destructive=True,
            on_host=True,
            repeatable=False,
        ),
        "HOST_FILE_READ": replace(_PLACE, path_use=PathUse.HOST, on_host=True),
        "HOST_FILE_LIST": replace(_PLACE, path_use=PathUse.HOST, on_host=True),
        "QUERY_MEMORY": Traits(parameters=("query",)),
        "MEMORY_STATS": Traits(),
        "STORE_FACT": Traits(parameters=("content", "importance"), reach=Reach.MEMORY),
        "SET_WM": Traits(parameters=("key", "value"), control=("key",)),
        "GET_WM": Traits(parameters=("key",), control=("key",)),
        "ASK_HUMAN": Traits(
            parameters=("prompt", "options", "schema", "timeout", "default"), reach=Reach.USER, returns=PERSON
        ),
        "SELECT": Traits(parameters=("data", "query")),
        "CALC": Traits(parameters=("expression",)),
        "FORMAT": Traits(parameters=("text",)),
        "AGENT_SOLVE": Traits(reach=Reach.MODEL, returns=UNKNOWN, composes=True),
        "RESPOND": _ANSWER,
        "TERMINATE": _ANSWER,
        "RE-PLAN": Traits(reach=Reach.MODEL),
        **dict.fromkeys(sorted(MODEL_OPERATIONS), _MODEL),
    }
)
"""The tools and operations of the language. What memory returns is set by the policy."""

_COMPUTING = frozenset({"HOST_EXEC", "SELECT", "CALC"})
PROGRAMS = frozenset({"code", "command", "cmd", "script", "program", "expression", "sql"})
"""Arguments that hold a program, by their plain names."""


def is_program(tool: str, traits: Traits | None) -> bool:
    """Whether a plan writes what the tool does with its data.

    It can then choose by the data whether the call fails, and whether it gives anything at all.

    >>> is_program("EXEC_CODE", BUILTINS["EXEC_CODE"]), is_program("READ_FILE", BUILTINS["READ_FILE"])
    (True, False)
    """
    return tool in _COMPUTING or (
        traits is not None and (traits.runs_code or not PROGRAMS.isdisjoint(traits.control))
    )


ANSWERS = frozenset({"RESPOND", "TERMINATE", "ASK_HUMAN"})
"""What is shown to the user."""
CONTROL_WORDS = frozenset({"RESPOND", "TERMINATE", "RE-PLAN"})
"""Keywords of the language, which the list of allowed tools does not restrict."""

_ALIASES = {"EXECUTE_CODE": "EXEC_CODE", "INSTALL_PACKAGE": "INSTALL_PKG", "REPLAN": "RE-PLAN"}
NO_SHELLS = frozenset(
    {"python", "py", "python3", "javascript", "js", "node", "nodejs", "typescript", "ts", "ruby"}
)
"""Languages that are not a shell's; every other one is treated as a shell."""


@lru_cache(maxsize=4_096)
def fold(name: str) -> str:
    """The canonical name of a tool or keyword, in whatever spelling.

    >>> fold("@execute_code"), fold("RE-PLAN"), fold("host-exec")
    ('EXEC_CODE', 'RE-PLAN', 'HOST_EXEC')
    """
    word = name.removeprefix("@").upper()
    return word if word == "RE-PLAN" else _ALIASES.get(canonical_tool_name(word), canonical_tool_name(word))


def is_shell(language: str | None) -> bool:
    """Whether a program in this language may be a shell script; None is an unknown language."""
    if language is None:
        return True
    return unicodedata.normalize("NFKC", language).strip().casefold() not in NO_SHELLS


def approver_of(policy: Policy, tool: str) -> str:
    """The role that whoever approves a call of this tool must have; empty if the policy demands none."""
    folded = fold(tool)
    rule = next((rule for name, rule in policy.tools.items() if fold(name) == folded), None)
    rule = rule or rule_of(policy, (folded,), None)
    return "" if rule is None else rule.approver


def is_approved_ahead(policy: Policy, step: str, tool: str) -> bool:
    """Whether calls of this tool at a step were approved before the run.

    What a role has to approve cannot be approved ahead, since nobody knows who did it.
    """
    return step in policy.approved and not approver_of(policy, tool)


def traits_of(policy: Policy, tool: str) -> Traits | None:
    """The traits of a folded tool name under a policy; None for an unknown tool.

    For a built-in tool, a policy entry can only add restrictions, except that it sets the label of the
    result.
    """
    rule = next((rule for name, rule in policy.tools.items() if fold(name) == tool), None)
    known = BUILTINS.get(tool)
    if tool in ("QUERY_MEMORY", "MEMORY_STATS", "GET_WM"):
        known = replace(BUILTINS[tool], returns=policy.memory)
    if tool in ("EXEC_CODE", "SHELL_EXEC") and policy.exec_network:
        known = replace(BUILTINS[tool], reach=Reach.WORLD, returns=PUBLIC_WORLD)
    if rule is None and known is None:
        rule = rule_of(policy, (tool,), None)
    if rule is None:
        return known
    if known is None:
        return _declared(rule)
    if rule.place_arg is not None:
        known = _with_place(known, rule.place_arg.casefold())
    return replace(
        known,
        control=tuple(dict.fromkeys((*known.control, *rule.control))),
        reads=rule.reads,
        returns=rule.returns if known.path is None else known.returns,
        destructive=known.destructive or rule.destructive,
        approval=rule.approval,
    )


def _with_place(known: Traits, argument: str) -> Traits:
    """The traits of a built-in tool for one of the same name whose path or address is in this argument."""
    own = known.path or known.address
    return replace(
        known,
        parameters=(),
        path=None if known.path is None else argument,
        address=None if known.address is None else argument,
        control=tuple(argument if name == own else name for name in known.control),
    )


def _declared(rule: ToolRule) -> Traits:
    reach = Reach.NOBODY
    if rule.egress:
        reach = Reach.RECIPIENT if rule.audience_arg is not None else Reach.WORLD
    fields = FieldLabels.of(rule.returns, rule.fields) if rule.fields else None
    return Traits(
        reach=reach,
        audience=rule.audience_arg,
        trusted_audience=rule.trusted_audience,
        private_without_audience=rule.private_without_audience,
        private_to_named=rule.private_to_named,
        control=rule.control,
        returns=rule.returns if fields is None else fields.whole,
        fields=fields,
        links_known=rule.links_known,
        no_echo=rule.no_echo,
        composes=not rule.egress,
        destructive=rule.destructive,
        repeatable=rule.idempotent,
        key=rule.key_arg,
        approval=rule.approval,
    )
