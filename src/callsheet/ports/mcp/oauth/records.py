"""A login as it is kept: whose tokens, for which server, from which issuer, until when.

A login counts for the one address that it was made for, and for the resource in it; nothing else is ever sent
its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


class WrongLogin(Exception):
    """Data that is no login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Whom an authorization server knows us as. `method` is how the secret is shown: none, basic or post."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What was given. `ends` is when the token is used no more, in seconds since 1970,
    None where nobody knows."""

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    ends: float | None = None
    scope: str = ""

    def is_over(self, now: float) -> bool:
        """Whether the access token is not to be used any more."""
        return self.ends is not None and now >= self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login with the server of this name at this url."""

    server: str
    url: str
    resource: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str = ""
    client: Client
    tokens: Tokens

    def secrets(self) -> Iterator[str]:
        """The texts that nobody may see."""
        yield from (s for s in (self.tokens.access, self.tokens.refresh, self.client.secret) if s)

    def to_json(self) -> dict[str, Any]:
        """The login as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Login:
        """The login in JSON data; raises WrongLogin."""
        try:
            told: dict[str, Any] = dict(data)
            client, tokens = Client(**told.pop("client")), _tokens(told.pop("tokens"))
            return cls(**told, client=client, tokens=tokens)
        except (TypeError, KeyError, ValueError) as error:
            raise WrongLogin(f"a login in it is none ({type(error).__name__})") from None


def _tokens(data: Mapping[str, Any]) -> Tokens:
    if set(data) != {f.name for f in fields(Tokens)} or not isinstance(data["access"], str):
        raise ValueError("these are no tokens")
    return Tokens(**data)
