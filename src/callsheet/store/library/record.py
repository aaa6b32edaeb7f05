"""The record of one version of a stored plan: its text, parameters, tools and goal, as JSON with a digest.

In: a record, or JSON data. Out: the other; ValueError for a damaged record.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.frontends.values import ParseResult
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.store.library.params import Param

_MOST_OF_A_TITLE = 40


def is_plan_id(text: str) -> bool:
    """Whether a text may be the id of a plan."""
    from callsheet.frontends.dag.fields import ID  # noqa: PLC0415 - brings the readers of JSON plans

    return re.fullmatch(ID, text, re.ASCII) is not None


def check_plan_id(text: str) -> str:
    """The id itself if it matches `[a-z0-9][a-z0-9._-]{0,63}`; raises CallsheetError (PLN001) otherwise.

    >>> check_plan_id("refactor-auth-001")
    'refactor-auth-001'
    """
    if not is_plan_id(wanted("plan_id", text, str, "the id of a plan")):
        raise CallsheetError.single(
            "PLN001",
            f"{text[:80]!a} is not a plan id",
            help="1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first",
        )
    return text


def new_plan_id(title: str, taken: Container[str] = ()) -> str:
    """An id derived from a title that is not `taken`.

    >>> new_plan_id("Réfactor the Auth module!"), new_plan_id("..", {"plan"})
    ('refactor-the-auth-module', 'plan-2')
    """
    plain = unicodedata.normalize("NFKD", title.lower()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    base = words[:_MOST_OF_A_TITLE].rpartition("-")[0] if len(words) > _MOST_OF_A_TITLE else words
    base = base or words[:_MOST_OF_A_TITLE] or "plan"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name


FORMAT = 1


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a plan.

    `saved` is a wall time in seconds since 1970. `tools` has, by the name under which the plan calls a tool,
    the hash of its declaration when the plan was saved: "" for one that had none, None for one that was
    not reachable. `compiled` is data from the compiler that made the plan. `is_by_hand` tells that
    the text was edited in its file and recorded by a later save. `label` is that of what its author had read,
    None if nothing is known of it.
    """

    id: str
    version: int
    saved: float
    syntax: Syntax
    text: str
    plan_hash: str
    goal: str | None = None
    params: tuple[Param, ...] = ()
    tools: Mapping[str, str | None] | None = None
    compiled: Mapping[str, JSON] | None = None
    is_by_hand: bool = False
    label: str | None = None

    def parsed(self) -> ParseResult:
        """The parsed text."""
        names = [param.name for param in self.params]
        return read_as(self.syntax, self.text, f"{self.id}@{self.version}", variables=names)

    def has_same_content(self, other: VersionRecord) -> bool:
        """Whether another version equals this one except for id, number, time and `is_by_hand`."""
        return (
            replace(other, id=self.id, version=self.version, saved=self.saved, is_by_hand=self.is_by_hand)
            == self
        )

    def to_json(self) -> dict[str, Any]:
        """The record as JSON data, with a digest of the rest."""
        data: dict[str, Any] = {
            "callsheet": "plan version",
            "format": FORMAT,
            "id": self.id,
            "version": self.version,
            "saved": self.saved,
            "syntax": str(self.syntax),
            "plan_hash": self.plan_hash,
            "goal": self.goal,
            "params": [param.to_json() for param in self.params],
            "tools": None if self.tools is None else dict(self.tools),
            "compiled": None if self.compiled is None else dict(self.compiled),
            "is_by_hand": self.is_by_hand,
            "text": self.text,
            **({} if self.label is None else {"label": self.label}),
        }
        return {**data, "sha256": digest(data)}

    @classmethod
    def from_json(cls, data: Any) -> VersionRecord:
        """The record in JSON data; raises ValueError if it is not a record, or its digest does not match."""
        if not isinstance(data, dict):
            raise ValueError("it is not an object")
        fields = cast("dict[str, Any]", data)
        rest = {name: value for name, value in fields.items() if name != "sha256"}
        if fields.get("callsheet") != "plan version" or fields.get("format") != FORMAT:
            raise ValueError("it is not a version of a plan, or was written by another version of callsheet")
        if digest(rest) != fields.get("sha256"):
            raise ValueError("its digest does not match: it was changed")
        try:
            return cls._of(fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it cannot be read: {error!r}") from error

    @classmethod
    def _of(cls, data: dict[str, Any]) -> VersionRecord:
        version, text, tools, compiled = data["version"], data["text"], data["tools"], data["compiled"]
        if type(version) is not int or version < 1 or not isinstance(text, str):
            raise ValueError("its number or its text is invalid")
        return cls(
            id=check_plan_id(data["id"]),
            version=version,
            saved=float(data["saved"]),
            syntax=Syntax(data["syntax"]),
            text=text,
            plan_hash=str(data["plan_hash"]),
            goal=None if data["goal"] is None else str(data["goal"]),
            params=tuple(Param.from_json(each) for each in data["params"]),
            tools=None
            if tools is None
            else {str(k): None if v is None else str(v) for k, v in tools.items()},
            compiled=None if compiled is None else dict(compiled),
            is_by_hand=bool(data["is_by_hand"]),
            label=None if data.get("label") is None else str(read_label(data["label"])),
        )


def hash_of(plan: Plan) -> str:
    """The hash of a plan without its id."""
    return plan_hash(replace(plan, id=None))


def digest(data: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON data, independent of layout and of the order of keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def layed_out(data: Mapping[str, Any]) -> str:
    """JSON data as the text of a file."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def unknown(message: str, hint: str) -> CallsheetError:
    """The error if no plan or more than one matches (PLN002)."""
    return CallsheetError.single("PLN002", message, help=hint)


def taken(name: str, hint: str) -> CallsheetError:
    """The error for an id that is taken."""
    return CallsheetError.single("PLN003", f"the plan {name} already exists", help=hint)


def another(name: str, why: str) -> CallsheetError:
    """The error for an imported plan that differs from the stored one with its id."""
    return CallsheetError.single(
        "PLN027",
        f"the plan {name} differs from the one here: {why}",
        help=f"import it under another id: --as {name}-2",
    )


def broken(message: str, hint: str) -> CallsheetError:
    """The error for a library, or a file of it, that cannot be used."""
    return CallsheetError.single("PLN004", message, help=hint)


class Listed(NamedTuple):
    """A row of the list of plans; `place` is the path of its text, `steps` is None if that has errors."""

    id: str
    place: str
    syntax: Syntax
    title: str | None
    goal: str | None
    steps: int | None
    version: int | None = None
    is_edited: bool = False
    params: tuple[Param, ...] = ()


class Imported(NamedTuple):
    """An imported plan: the number of new versions, and of all."""

    id: str
    added: int
    versions: int


class Purpose(NamedTuple):
    """The goal of a plan, and when it was saved, in seconds since 1970 (0 without a version)."""

    id: str
    goal: str
    saved: float


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan of the library: its text and the result of parsing it.

    `place` is the path of the file, or its address in a store. `record` is the version that was loaded:
    the newest, or the requested one; None for a file without versions. `is_edited` tells that the file
    has changed since. `library` is the folder or the address of the library whose current plan this is;
    "" for a version that was requested by its number, which stays as it is.
    """

    id: str
    place: str
    syntax: Syntax
    result: ParseResult
    record: VersionRecord | None = None
    is_edited: bool = False
    library: str = ""

    @property
    def name(self) -> str:
        """The name of the plan in commands: its id, with the version if there is one."""
        return self.id if self.record is None else f"{self.id}@{self.record.version}"

    @property
    def version(self) -> int | None:
        """The number of the version; None without one."""
        return None if self.record is None else self.record.version

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters of the plan."""
        return () if self.record is None else self.record.params

    @property
    def tools(self) -> Mapping[str, str | None]:
        """The hashes of the declarations of the tools when the plan was saved, by name.

        "" for a tool without a declaration, None for one that was not reachable.
        """
        return {} if self.record is None or self.record.tools is None else self.record.tools

    @property
    def compiled(self) -> Mapping[str, JSON] | None:
        """Data from the compiler that made the plan."""
        return None if self.record is None else self.record.compiled

    @property
    def label(self) -> Label:
        """The label of what the author of the plan had read, which its literals may repeat."""
        told = None if self.record is None else self.record.label
        return LITERAL if told is None else read_label(told)

    @property
    def goal(self) -> str | None:
        """The goal that the plan was saved for, else its own, else its title."""
        recorded = None if self.record is None else self.record.goal
        return recorded or goal_of(self.result)

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.result.source.text

    def require(self) -> Plan:
        """The plan with its id; raises CallsheetError with all errors of its text."""
        return replace(self.result.require(), id=self.id)


def goal_of(result: ParseResult) -> str | None:
    """The goal that a text states itself: its goal, else its title."""
    part = result.plan or result.partial
    return part.goal or part.title
