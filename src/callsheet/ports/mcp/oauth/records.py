"""A stored login: its tokens, server, issuer and expiry.

A login is valid for exactly the URL that it was made for and the resource in it; its tokens are sent
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


class WrongLogin(Exception):
    """The data is not a valid login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Our OAuth client. `method` is `none`, `client_secret_basic` or `client_secret_post`."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens as issued. `ends` is when to stop using the access token.

    It is in seconds since 1970, None if unknown.
    """

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    ends: float | None = None
    scope: str = ""

    def is_over(self, now: float) -> bool:
        """Whether the access token must no longer be used."""
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
        """The texts that have to be kept secret."""
        yield from (s for s in (self.tokens.access, self.tokens.refresh, self.client.secret) if s)

    def to_json(self) -> dict[str, Any]:
        """The login as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Login:
        """The login in JSON data; raises WrongLogin if it is malformed."""
        try:
            row: dict[str, Any] = dict(data)
            client, tokens = Client(**row.pop("client")), _tokens(row.pop("tokens"))
            return cls(**row, client=client, tokens=tokens)
        except (TypeError, KeyError, ValueError) as error:
            raise WrongLogin(f"it contains an invalid login ({type(error).__name__})") from None


def _tokens(data: Mapping[str, Any]) -> Tokens:
    if set(data) != {f.name for f in fields(Tokens)} or not isinstance(data["access"], str):
        raise ValueError("these are not tokens")
    return Tokens(**data)
