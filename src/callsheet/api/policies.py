"""Loads, writes and shares policies: by name, from files, from the policies of a team.

In: names, paths, policies. Out: policies, or CallsheetError for one that cannot be used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from callsheet.diagnostics import CallsheetError, Source, did_you_mean
from callsheet.diagnostics.wrong_type import wrong
from callsheet.ir.strict_toml import read_toml
from callsheet.lazy import deferred
from callsheet.policy.model import Policy
from callsheet.store.shared.opening import VARIABLE, SharedFiles, open_database, shared_address, shown

if TYPE_CHECKING:
    from callsheet.policy import policy_file
    from callsheet.policy.policy_file import Find
else:
    policy_file = deferred("callsheet.policy.policy_file")

SHARED = "store:"
"""The prefix of the name of a shared policy."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_BELOW = "policies"


def is_shared(name: str) -> bool:
    """Whether a name refers to a shared policy."""
    return name.startswith(SHARED)


def shared_policy(name: str) -> Source:
    """The text of the policy `store:NAME`; raises CallsheetError (POL006) if the store has none."""
    with _files() as files:
        try:
            return Source(name, files.read(_checked(name)).decode("utf-8"))
        except FileNotFoundError:
            known = [f"{SHARED}{each}" for each in files.names()]
            suggestions = did_you_mean(name, known)
            summary = (
                f"did you mean {suggestions[0]}?"
                if suggestions
                else f"it has {', '.join(known[:8]) or 'none yet'}"
            )
            raise CallsheetError.single(
                "POL006",
                f"there is no policy {name!r} in {files.address}",
                help=f"{summary}; `callsheet policy share FILE` puts one there",
            ) from None


def share_policy(name: str, text: str) -> str:
    """Store the text of a policy, which the caller has checked, and return its address."""
    with _files() as files, files.locked():
        files.write(_checked(name), text)
        return files.place(_checked(name))


def _checked(name: str) -> str:
    bare = name.removeprefix(SHARED)
    if not _NAME.fullmatch(bare):
        raise CallsheetError.single(
            "POL006",
            f"{name[:80]!a} cannot be the name of a shared policy",
            help="use up to 64 of a-z, 0-9, . _ and -, beginning with a letter or digit: store:payments",
        )
    return bare


@contextmanager
def _files() -> Generator[SharedFiles]:
    address = shared_address()
    if address is None:
        raise CallsheetError.single(
            "POL006",
            "there is no shared store to read a policy from",
            help=f"name one: export {VARIABLE}=postgresql://USER@HOST/DATABASE",
        )
    database = open_database(address)
    try:
        yield SharedFiles(database, _BELOW)
    except OSError as error:
        raise CallsheetError.single(
            "POL006",
            f"the policies in {shown(address)} cannot be used: {error.strerror or error}",
            help="check that it runs and accepts your login, or name a file",
        ) from error
    finally:
        database.close()


__all__ = [
    "SHARED",
    "SHIPPED",
    "PolicyLike",
    "load_policy",
    "load_shared",
    "policies_beside",
    "policy_of",
    "policy_source",
]

SHIPPED = ("strict", "workspace", "open")
"""The policies shipped with callsheet, strictest first."""

PolicyLike: TypeAlias = "Policy | str | os.PathLike[str]"
"""A policy, the name of a shipped or shared one, or the path of a file."""
_MOST_BYTES = 1 << 20


def policy_of(given: PolicyLike | None) -> Policy | None:
    """The policy, loaded if given by name or path; raises CallsheetError (POL001 to POL006)."""
    if isinstance(given, Policy) or given is None:
        return given
    return load_policy(given)


def load_policy(named: str | os.PathLike[str]) -> Policy:
    """Load the policy of this name or in this file; a policy that it extends is looked up beside it.

    Raises CallsheetError (POL001 to POL006) for a policy that is invalid or missing.

    It names the files that it was read from, which no call under it writes.

    >>> load_policy("workspace").refuse_unknown_tools
    True
    """
    source = policy_source(named)
    if is_shared(source.name):
        return load_shared(source)
    if source.name in SHIPPED:
        return policy_file.read_policy(source, policies_beside(Path()))
    read = [source.name]
    neighbours = policies_beside(Path(source.name).parent)

    def find(name: str) -> Source | None:
        neighbour = neighbours(name)
        if neighbour is not None and neighbour.name not in SHIPPED and not is_shared(neighbour.name):
            read.append(neighbour.name)
        return neighbour

    return policy_file.read_policy(source, find).with_files(map(os.path.realpath, read))


def extended_policy(named: str | os.PathLike[str]) -> Policy:
    """The policy that the one of this name or in this file extends; a plain one if it extends none.

    Raises CallsheetError (POL001 to POL006) for a policy that is invalid or missing.
    """
    load_policy(named)
    source = policy_source(named)
    name = read_toml(source.text).get("extends")
    if name is None:
        return Policy()
    is_plain = is_shared(source.name) or source.name in SHIPPED or name in SHIPPED or is_shared(name)
    return load_policy(name if is_plain else Path(source.name).parent / name)


def load_shared(source: Source) -> Policy:
    """Parse a policy of the shared store, which may extend only shipped and shared policies."""
    return policy_file.read_policy(source, _shared_or_shipped)


def _shared_or_shipped(name: str) -> Source | None:
    if name in SHIPPED:
        return _shipped(name)
    return shared_policy(name) if is_shared(name) else None


def policy_source(named: str | os.PathLike[str]) -> Source:
    """The text of a policy; raises CallsheetError (POL006) if it cannot be read."""
    if isinstance(named, str) and named in SHIPPED:
        return _shipped(named)
    if isinstance(named, str) and is_shared(named):
        return shared_policy(named)
    if not isinstance(cast("object", named), str | os.PathLike):
        raise wrong("policy", named, "the name of a policy, its path or a Policy")
    path = Path(named)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _missing(os.fspath(named), error) from None
    except ValueError:
        raise CallsheetError.single(
            "POL006",
            f"no file can be called {str(path)[:80]!a}",
            help=f"there are {', '.join(SHIPPED)}, and files",
        ) from None
    if len(data) > _MOST_BYTES:
        raise CallsheetError.single("POL006", f"the policy {path} is larger than {_MOST_BYTES:,} bytes")
    try:
        return Source(str(path), data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise CallsheetError.single("POL006", f"the policy {path} is not UTF-8 text") from None


def _shipped(name: str) -> Source:
    text = files("callsheet.policy").joinpath("shipped", f"{name}.toml").read_text(encoding="utf-8")
    return Source(name, text)


def policies_beside(folder: Path) -> Find:
    """A lookup for the policies that one in this folder extends: shipped, shared, or a file beside it.

    The lookup returns None for a missing policy and raises CallsheetError (POL006) for an unreadable file.
    """

    def find(name: str) -> Source | None:
        if name in SHIPPED or is_shared(name):
            return _shared_or_shipped(name)
        try:
            return policy_source(folder / name)
        except CallsheetError as error:
            if os.path.exists(folder / name):
                raise error
            return None

    return find


def _missing(name: str, error: OSError) -> CallsheetError:
    if not isinstance(error, FileNotFoundError):
        reason = error.strerror or str(error)
        return CallsheetError.single("POL006", f"the policy {name} cannot be read: {reason}")
    suggestions = did_you_mean(name, SHIPPED)
    meant = f"did you mean {suggestions[0]}? " if suggestions else ""
    return CallsheetError.single(
        "POL006",
        f"there is no policy {name!r}",
        help=f"{meant}there are {', '.join(SHIPPED)}, and files: `callsheet policy init` writes one",
    )
