"""Security labels: who may have influenced a value, and who may read it.

Labels form a lattice: a combined value gets the join of their labels, which is no more trusted and has no
more readers than any of them. The rules are in section 1 of the security contract.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from callsheet import lazy

Readers: TypeAlias = "frozenset[str] | None"
"""The audiences that may read a value; None means everybody, the empty set nobody."""

USER = "user"
"""The person the run works for, who gets its answer."""
TRUSTED = "trusted"
"""The hosts and addresses that a policy trusts with private data."""
MODEL = "model"
"""The provider of the language model."""

LINKS = "links"
"""The hosts of addresses in a value, which learn the address's content when the user follows or loads it.

A value that the user may read normally has this audience too; it loses it once it is retold.
"""
RETOLD = "retold"
"""The word, in the text of a label, for readers that include the user but not `LINKS`."""

_PRIVATE = frozenset({USER, LINKS, TRUSTED, MODEL})
_BESIDE_THE_USER = frozenset({TRUSTED, MODEL})
_NOBODY: Readers = frozenset()
_NAME = lazy.pattern(r"[a-z][a-z0-9_-]{0,63}")
_WORDS: dict[str, Readers] = {
    "pub": None, "priv": _PRIVATE, "secret": _NOBODY, RETOLD: _PRIVATE - {LINKS},
}  # fmt: skip


class Label(NamedTuple):
    """Integrity and confidentiality of a value.

    `untrusted` says that somebody other than the run's user or its plan may have chosen the value; `readers`
    are the audiences that may see it.
    """

    untrusted: bool = False
    readers: Readers = None

    def join(self, other: Label) -> Label:
        """The label of a value made of both.

        >>> str(read_label("T/priv").join(read_label("U/pub")))
        'U/priv'
        """
        if self is other or other is LITERAL:
            return self
        if self is LITERAL:
            return other
        mine, theirs, untrusted = self.readers, other.readers, self.untrusted or other.untrusted
        if theirs is None or theirs is mine:
            readers = mine
        elif mine is None:
            readers = theirs
        else:
            readers = mine if mine == theirs else _plain(mine & theirs)
        if readers is mine and untrusted == self.untrusted:
            return self  # the same object: most joins change nothing, and callers compare by identity first
        return other if readers is theirs and untrusted == other.untrusted else Label(untrusted, readers)

    @property
    def is_retold(self) -> bool:
        """Whether it may combine private data with strangers' text, so that addresses in it may leak data.

        >>> UNKNOWN.is_retold, UNKNOWN.retold().is_retold, str(UNKNOWN.retold())
        (False, True, 'U/retold')
        """
        return (
            self.untrusted and self.readers is not None and USER in self.readers and LINKS not in self.readers
        )

    @property
    def may_link(self) -> bool:
        """Whether an address in it may carry private data to its host.

        True if it was retold, or if the user may not read it but the trusted hosts or the model may.

        >>> [read_label(text).may_link for text in ("U/retold", "T/model+trusted", "U/priv", "T/team")]
        [True, True, False, False]
        """
        readers = self.readers
        if readers is None or LINKS in readers:
            return False
        return self.untrusted if USER in readers else not readers.isdisjoint(_BESIDE_THE_USER)

    def retold(self) -> Label:
        """The label of a value that a model or tool rewrites in its own words."""
        if not self.untrusted or self.readers is None or LINKS not in self.readers:
            return self
        return Label(True, self.readers - {LINKS})

    def as_told(self) -> Label:
        """The label with the audience `LINKS` back, if it was retold."""
        return Label(True, frozenset({*(self.readers or ()), LINKS})) if self.is_retold else self

    def flows_to(self, other: Label) -> bool:
        """Whether a value with this label may be used where one with the other is expected."""
        joined = self.join(other)
        return joined is other or joined == other

    def may_reach(self, audiences: frozenset[str]) -> bool:
        """Whether a reader who belongs to exactly these audiences may see the value."""
        return self.readers is None or not self.readers.isdisjoint(audiences)

    @property
    def is_public(self) -> bool:
        """Whether everybody may read it."""
        return self.readers is None

    @property
    def is_secret(self) -> bool:
        """Whether nobody may read it, not even the model."""
        return self.readers is not None and not self.readers

    def __str__(self) -> str:
        return f"{'U' if self.untrusted else 'T'}/{readers_text(self.readers)}"


_PLAIN = "T/pub"
LITERAL = Label()
"""The label of a plan's literals, if its planner has seen nothing untrusted."""
UNKNOWN = Label(True, _PRIVATE)
"""The label of data from an unknown source: untrusted and private."""


def join(labels: Iterable[Label]) -> Label:
    """The join of all labels; LITERAL if there are none."""
    joined = LITERAL
    for label in labels:
        if label is not joined:
            joined = joined.join(label)
    return joined


def _plain(readers: frozenset[str]) -> frozenset[str]:
    """Readers without `LINKS` if the user, who would follow links, is not among them."""
    return readers if USER in readers else readers - {LINKS}


def readers_text(readers: Readers) -> str:
    """The readers as a policy names them: `pub`, `priv`, `secret`, or the audiences joined by `+`.

    For a retold value, `retold` is among them.
    """
    for word, known in _WORDS.items():
        if readers == known:
            return word
    named = set(readers or ())
    return "+".join(sorted(named - {LINKS} if LINKS in named or USER not in named else named | {RETOLD}))


def read_readers(text: str) -> Readers:
    """The readers of `pub`, `priv`, `secret` or of audiences joined by `+`; raises ValueError.

    >>> sorted(read_readers("user+finance"))
    ['finance', 'links', 'user']
    """
    if text in _WORDS:
        return _WORDS[text]
    names = frozenset(text.split("+"))
    if not all(_NAME.fullmatch(name) for name in names) or names & _WORDS.keys() - {RETOLD}:
        raise ValueError(f"{text!r} is neither pub, priv or secret nor a list of audiences")
    if RETOLD in names:
        return names - {RETOLD, LINKS}
    return _plain(names | {LINKS})


def read_label(text: str) -> Label:
    """The label written as a text such as `U/priv`; raises ValueError.

    >>> read_label("U/pub")
    Label(untrusted=True, readers=None)
    """
    if text == _PLAIN:
        return LITERAL
    integrity, slash, readers = text.partition("/")
    if not slash or integrity not in ("T", "U"):
        raise ValueError(f"{text!r} is not a label: write T/ or U/ and who may read it, such as U/priv")
    return Label(integrity == "U", read_readers(readers))
