"""Reads and writes policies in the store that several machines share, named `store:NAME`.

In: a name, a text. Out: the text, or its address in the store. Raises CallsheetError: POL006 for a missing
policy or an unusable store, CFG230 or CFG231 for a wrong store address.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from callsheet.diagnostics import CallsheetError, Source, did_you_mean
from callsheet.store.shared.address import VARIABLE, shared_address, shown

if TYPE_CHECKING:
    from callsheet.store.shared.texts import SharedFiles

PREFIX = "store:"
"""The prefix of the name of a shared policy."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_BELOW = "policies"


def is_shared(name: str) -> bool:
    """Whether a name refers to a shared policy."""
    return name.startswith(PREFIX)


def shared_policy(name: str) -> Source:
    """The text of the policy `store:NAME`; raises CallsheetError (POL006) if the store has none."""
    with _files() as files:
        try:
            return Source(name, files.read(_checked(name)).decode("utf-8"))
        except FileNotFoundError:
            known = [f"{PREFIX}{each}" for each in files.names()]
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


def shared_names() -> tuple[str, ...]:
    """The names of all shared policies, in order; empty without a shared store."""
    if shared_address() is None:
        return ()
    with _files() as files:
        return tuple(f"{PREFIX}{name}" for name in files.names())


def _checked(name: str) -> str:
    bare = name.removeprefix(PREFIX)
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
    from callsheet.store.shared.opening import open_database  # noqa: PLC0415 - only where there is one
    from callsheet.store.shared.texts import SharedFiles  # noqa: PLC0415 - as above

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
