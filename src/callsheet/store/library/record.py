"""The record of one version of a stored plan: its text, parameters, tools and goal, as JSON with a digest.

In: a record, or JSON data. Out: the other; ValueError for a damaged record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, cast

from callsheet.frontends.spelling import Syntax, read_as
from callsheet.frontends.values import ParseResult
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.store.library.ids import check_plan_id
from callsheet.store.library.params import Param

FORMAT = 1


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a plan.

    `saved` is a wall time in seconds since 1970. `tools` has, by the name under which the plan calls a tool,
    the hash of its declaration when the plan was saved: "" for one that had none, None for one that was
    not reachable. `compiled` is data from the compiler that made the plan. `is_by_hand` tells that
    the text was edited in its file and recorded by a later save.
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
