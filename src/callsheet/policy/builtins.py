"""What is known of the document's tools, and what a policy makes of them.

In: a canonical name and the policy's entry for it, if there is one. Out: its traits, None for a tool that
nobody knows. Data only: rules say what follows.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from callsheet.ir.labels import LITERAL, UNKNOWN, Label
from callsheet.ir.operations import MODEL_OPERATIONS, canonical_tool_name
from callsheet.policy.model import Policy, ToolRule, When

PUBLIC_WORLD = Label(True)
"""What comes from a place that everybody can read, and anybody can write."""
PERSON = Label(False, UNKNOWN.readers)
"""What the run's own user says."""


class Reach(Enum):
    """Who learns the arguments of a call, and that it is made."""

    NOBODY = "nobody"
    USER = "the user"
    MODEL = "the model"
    MEMORY = "later runs"
    WORLD = "everybody"
    ADDRESS = "the host of the address"
    RECIPIENT = "the recipients"


class PathUse(Enum):
    """What is done with the path of a call."""

    READ = "read"
    WRITE = "write"
    HOST = "read on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the rules need to know of a tool.

    `parameters` name positional arguments. `reach` says who learns the arguments; `address`, `audience`,
    `path` and `language` name the argument that holds an address, recipients, a path, a language;
    `content` what is put into a file. `control` decides what is done. `returns` is the label of what the
    world adds to the result, which may repeat its arguments unless there is `no_echo`.
    `composes` says that it may put them together in ways of its own.
    `repeatable` calls may be made again, others only under a `key`.
    """

    parameters: tuple[str, ...] = ()
    reach: Reach = Reach.NOBODY
    address: str | None = None
    audience: str | None = None
    trusted_audience: tuple[str, ...] = ()
    path: str | None = None
    path_use: PathUse = PathUse.READ
    content: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    returns: Label = LITERAL
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
    "interpreter", "entrypoint", "cwd",
)  # fmt: skip
"""What decides what runs, under every name that a runner of programs may have for it."""
_OF_PACKAGES = (
    "language", "packages", "package", "name", "names", "version", "versions", "spec", "requirements",
    "requirement", "constraints", "file", "path", "source", "url", "urls", "index", "index_url",
    "extra_index_url", "extra_index_urls", "registry", "repository", "repo", "channel", "channels",
    "find_links", "mirror", "proxy", "trusted_host", "options", "flags", "args", "env", "manager",
)  # fmt: skip
"""What decides which package is installed and where it comes from, in the same way."""
_CODE = Traits(
    parameters=("code", "language", "stdin"), control=(*_OF_CODE, "language"), runs_code=True, composes=True
)
_ANSWER = Traits(reach=Reach.USER)
_CHANGE = Traits(path="path", path_use=PathUse.WRITE, control=("path",))

BUILTINS = MappingProxyType(
    {
        "WEB_SEARCH": Traits(parameters=("query",), reach=Reach.WORLD, returns=PUBLIC_WORLD),
        "FETCH_PAGE": Traits(parameters=("url",), reach=Reach.ADDRESS, address="url", returns=PUBLIC_WORLD),
        "EXEC_CODE": _CODE,
        "SHELL_EXEC": replace(_CODE, parameters=("code", "stdin"), control=_OF_CODE),
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
"""The tools and operations that everybody knows. What memory returns is said by the policy."""

ANSWERS = frozenset({"RESPOND", "TERMINATE", "ASK_HUMAN"})
"""What is shown to the user."""
CONTROL_WORDS = frozenset({"RESPOND", "TERMINATE", "RE-PLAN"})
"""Words of the language, which no list of tools allows or denies."""

_ALIASES = {"EXECUTE_CODE": "EXEC_CODE", "INSTALL_PACKAGE": "INSTALL_PKG", "REPLAN": "RE-PLAN"}
NO_SHELLS = frozenset(
    {"python", "py", "python3", "javascript", "js", "node", "nodejs", "typescript", "ts", "ruby"}
)
"""Languages whose programs are no shell's; every other word counts as one."""


@lru_cache(maxsize=4_096)
def fold(name: str) -> str:
    """The one name of a tool or a control word, however a plan, a policy or an executor spells it.

    >>> fold("@execute_code"), fold("RE-PLAN"), fold("host-exec")
    ('EXEC_CODE', 'RE-PLAN', 'HOST_EXEC')
    """
    word = name.removeprefix("@").upper()
    return word if word == "RE-PLAN" else _ALIASES.get(canonical_tool_name(word), canonical_tool_name(word))


def is_shell(language: str | None) -> bool:
    """Whether a program in this language is a shell's; None is a language that is not known yet."""
    if language is None:
        return True
    return unicodedata.normalize("NFKC", language).strip().casefold() not in NO_SHELLS


def traits_of(policy: Policy, tool: str) -> Traits | None:
    """What is known of a folded name under a policy; None if nobody has said anything.

    What a policy says of a tool of the document can only add to what is known, but for the label it returns.
    """
    rule = next((rule for name, rule in policy.tools.items() if fold(name) == tool), None)
    known = BUILTINS.get(tool)
    if tool in ("QUERY_MEMORY", "MEMORY_STATS", "GET_WM"):
        known = replace(BUILTINS[tool], returns=policy.memory)
    if tool in ("EXEC_CODE", "SHELL_EXEC") and policy.exec_network:
        known = replace(BUILTINS[tool], reach=Reach.WORLD, returns=PUBLIC_WORLD)
    if rule is None:
        return known
    if known is None:
        return _declared(rule)
    return replace(
        known,
        control=tuple(dict.fromkeys((*known.control, *rule.control))),
        returns=rule.returns if known.path is None else known.returns,
        destructive=known.destructive or rule.destructive,
        approval=rule.approval,
    )


def _declared(rule: ToolRule) -> Traits:
    reach = Reach.NOBODY
    if rule.egress:
        reach = Reach.RECIPIENT if rule.audience_arg is not None else Reach.WORLD
    return Traits(
        reach=reach,
        audience=rule.audience_arg,
        trusted_audience=rule.trusted_audience,
        control=rule.control,
        returns=rule.returns,
        no_echo=rule.no_echo,
        composes=not rule.egress,
        destructive=rule.destructive,
        repeatable=rule.idempotent,
        key=rule.key_arg,
        approval=rule.approval,
    )
