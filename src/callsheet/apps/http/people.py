"""The people of a server: their names, their roles, and what these may do.

In: a file of roles and people, with hashes of their tokens; the token of a request. Out: the person, whose
name is recorded with what is done, and whether a request is within their rights. Without a file there is
only the operator, who may do everything.
"""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from callsheet.apps.settings import read_tables
from callsheet.diagnostics import CallsheetError, Source

_HASH = "sha256:"


OPERATOR = "operator"
"""The name of whoever has the token of the server itself, where there are people."""


class Right(StrEnum):
    """What a role may do besides reading, which everybody may."""

    START = "start"
    """Start, resume and branch off runs; have a goal compiled."""
    ANSWER = "answer"
    """Answer questions, approve calls, decide on calls in doubt."""
    CANCEL = "cancel"
    """End and pause runs."""
    ADMINISTER = "administer"
    """All of that; save and delete plans, delete runs, change many at once."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in: a name, empty for an operator who is alone, with roles and rights."""

    name: str = ""
    roles: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset(Right)

    def may(self, right: Right) -> bool:
        """Whether a role of this person has a right."""
        return right in self.rights or Right.ADMINISTER in self.rights


EVERYBODY = Person()
"""The operator of a server without people."""


def who_answers(name: str) -> Person:
    """Whoever a link in a mail has signed in, at a server without people: may read and answer."""
    return Person(name, frozenset(), frozenset({Right.ANSWER}))


RIGHTS: Mapping[tuple[str, str], Right | None] = {
    **{
        ("POST", f"/v1/{text}"): None
        for text in (
            "parse", "validate", "visualize", "format", "verify", "explain-policy", "dry-run",
            "editor/marks", "editor/completion", "editor/hover", "editor/name", "editor/rename",
            "session", "webhooks/{name}",
        )
    },
    ("DELETE", "/v1/session"): None,
    ("POST", "/v1/compile"): Right.START,
    ("POST", "/v1/runs"): Right.START,
    ("POST", "/v1/tools/{tool}/call"): Right.START,
    ("POST", "/v1/runs/{run_id}/resume"): Right.START,
    ("POST", "/v1/runs/{run_id}/rerun"): Right.START,
    ("POST", "/v1/runs/{run_id}/fork"): Right.START,
    ("POST", "/v1/runs/{run_id}/undo"): Right.START,
    ("POST", "/v1/runs/{run_id}/approve"): Right.ANSWER,
    ("POST", "/v1/runs/{run_id}/decide"): Right.ANSWER,
    ("POST", "/v1/runs/{run_id}/cancel"): Right.CANCEL,
    ("POST", "/v1/runs/{run_id}/pause"): Right.CANCEL,
    ("POST", "/v1/bulk"): Right.ADMINISTER,
    ("DELETE", "/v1/runs/{run_id}"): Right.ADMINISTER,
    ("PUT", "/v1/plans/{plan_id}"): Right.ADMINISTER,
    ("DELETE", "/v1/plans/{plan_id}"): Right.ADMINISTER,
}  # fmt: skip
"""The right that each request needs which may change something; reading needs none."""


def right_for(method: str, path: str) -> Right | None:
    """The right that an endpoint needs; one that changes something and is not in the table, the highest."""
    if method in ("GET", "HEAD"):
        return None
    return RIGHTS.get((method, path), Right.ADMINISTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPerson:
    """The table `[people.NAME]`: the roles of a person, and the hash of their token."""

    roles: tuple[str, ...]
    token: str

    def __post_init__(self) -> None:
        digits = self.token.removeprefix(_HASH)
        if not self.token.startswith(_HASH) or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            raise ValueError("token: write sha256: and the 64 digits that `callsheet people add` prints")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFile:
    """The file of people: the rights of each role, `[roles]`, and who has which, `[people.NAME]`."""

    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    people: Mapping[str, NamedPerson] = field(default_factory=dict[str, NamedPerson])

    def __post_init__(self) -> None:
        for role, rights in self.roles.items():
            for word in rights:
                if word not in set(Right):
                    raise ValueError(f"roles: {role}: {word!r} is none of {', '.join(Right)}")
        for name, person in self.people.items():
            if not is_person_name(name):
                raise ValueError(f"people: {name[:60]!r} is no name: use printable characters, at most 60")
            for role in person.roles:
                if role not in self.roles:
                    raise ValueError(f"people: {name} has the role {role!r}, which is not in [roles]")

    def person(self, name: str) -> Person | None:
        """The person of a name; None if there is none."""
        found = self.people.get(name)
        if found is None:
            return None
        rights = frozenset(Right(word) for role in found.roles for word in self.roles[role])
        return Person(name, frozenset(found.roles), rights)


def is_person_name(name: str) -> bool:
    """Whether somebody may be called this; the operator's name is taken."""
    return 0 < len(name) <= 60 and name.isprintable() and name == name.strip() and name != OPERATOR


def hash_of_token(token: str) -> str:
    """What the file has of a token."""
    return f"{_HASH}{sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def read_people(path: Path) -> PeopleFile:
    """The file of people; raises CallsheetError (CFG016), API019 for one that others can write."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CallsheetError.single("CFG016", f"the people in {path} cannot be read: {reason}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CallsheetError.single(
            "API019", f"others can write the file of people {path}", help=f"chmod go-w {path}"
        )
    return read_tables(PeopleFile, Source(str(path), text))


class People:
    """The people of a server; their file is read again when it has changed, so that nobody stays who is gone.

    Raises CallsheetError as `read_people`. A later version that cannot be read leaves the last good one in
    force, which `say` is told.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._seen = _state_of(path)
        self._known = read_people(path)

    def named(self, name: str) -> Person | None:
        """The person of a name."""
        return self._now().person(name)

    def with_token(self, token: str) -> Person | None:
        """The person who has a token; every hash is compared, in constant time."""
        known, given = self._now(), hash_of_token(token)
        found = [name for name, each in known.people.items() if hmac.compare_digest(each.token, given)]
        return known.person(found[0]) if found else None

    def _now(self) -> PeopleFile:
        seen = _state_of(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._known = read_people(self._path)
            except CallsheetError as error:
                self._say(f"the people stay as they were: {error.diagnostics[0].message}")
        return self._known


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
