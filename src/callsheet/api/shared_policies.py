"""Policies of the store that machines share: `store:NAME` is what every machine reads the same.

In: a name, a text. Out: the text, or that it is there now. Raises CallsheetError (POL006) for what is not
there and for a store that cannot be used, CFG230 and CFG231 for a wrong address.
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
"""How the name of a shared policy begins."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_BELOW = "policies"


def is_shared(name: str) -> bool:
    """Whether a name is that of a policy of the store."""
    return name.startswith(PREFIX)


def shared_policy(name: str) -> Source:
    """The text of the policy `store:NAME`; raises CallsheetError (POL006) where the store has none."""
    with _files() as files:
        try:
            return Source(name, files.read(_checked(name)).decode("utf-8"))
        except FileNotFoundError:
            known = [f"{PREFIX}{each}" for each in files.names()]
            near = did_you_mean(name, known)
            said = f"did you mean {near[0]}?" if near else f"it has {', '.join(known[:8]) or 'none yet'}"
            raise CallsheetError.single(
                "POL006",
                f"there is no policy {name!r} in {files.address}",
                help=f"{said}; `callsheet policy share FILE` puts one there",
            ) from None


def share_policy(name: str, text: str) -> str:
    """Put the text of a policy that was checked into the store; gives its address there."""
    with _files() as files, files.locked():
        files.write(_checked(name), text)
        return files.place(_checked(name))


def shared_names() -> tuple[str, ...]:
    """The names of the policies of the store, in order; none where there is no store."""
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
            help="take up to 64 of a-z, 0-9, and . _ - but for the first: store:payments",
        )
    return bare


@contextmanager
def _files() -> Generator[SharedFiles]:
    address = shared_address()
    if address is None:
        raise CallsheetError.single(
            "POL006",
            "there is no shared store to take a policy from",
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
            help="see that it runs and lets you in, or name a file",
        ) from error
    finally:
        database.close()
