"""Notices by mail: through the server of the project's table `[mail]`, with TLS, and a link to the inbox.

In: the table, a notice, who gets it. Out: a message that was handed to the server, or why it was not. As
every notice it has no value of the run. The link signs its reader in once, for a time, as one who may
answer.
"""

from __future__ import annotations

import os
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid, parseaddr
from typing import Literal
from urllib.parse import urlsplit

_VARIABLE = "env:"
TIMEOUT = 20.0
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server that takes mail, as a project says it: the table `[mail]`.

    `server` is its name, with `:port` if that is not the usual one of its `security`; without any (`none`)
    nothing is encrypted, and there is no password. `user` and `password` are texts, or `env:VARIABLE`;
    `sender` is the address that mails come from. `link` is the address of `callsheet serve` for those who get
    them, whose links sign in for `hours`.
    """

    server: str
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = None
    link: str | None = None
    hours: int = 24

    def __post_init__(self) -> None:
        if not is_mail_address(self.sender):
            raise ValueError("sender: it is no mail address, such as callsheet@example.org")
        if self.security == "none" and self.password is not None:
            raise ValueError("password: it would be sent unencrypted; use starttls or tls")
        if self.password is not None and not self.password.startswith(_VARIABLE):
            raise ValueError("password: write env:VARIABLE; the password itself must not be in a shared file")
        if (self.user is None) != (self.password is None):
            raise ValueError("user: give user and password, or neither")
        if self.link is not None and urlsplit(self.link).scheme not in ("http", "https"):
            raise ValueError("link: it is no address of http or https")
        if self.hours < 1:
            raise ValueError("hours: it must be at least 1")
        _ = self.place

    @property
    def place(self) -> tuple[str, int]:
        """The host and the port."""
        host, colon, port = self.server.rpartition(":")
        if not colon:
            return self.server, _PORTS[self.security]
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
            raise ValueError("server: write a name, or name:port")
        return host.strip("[]"), int(port)


def is_mail_address(text: str) -> bool:
    """Whether mail can be sent to this address; it has no line break, so that it adds no header."""
    name, _, host = parseaddr(text)[1].rpartition("@")
    return bool(name and host) and text.isprintable() and "," not in text


def send_mail(server: MailServer, to: str, subject: str, text: str) -> str | None:
    """Hand a mail to the server; returns why it was not taken, None if it was."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only where something is sent

    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = server.sender, to, subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = make_msgid(domain=parseaddr(server.sender)[1].rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    host, port = server.place
    user, password = _value(server.user), _value(server.password)
    for named, value in ((server.user, user), (server.password, password)):
        if named is not None and value is None:
            return f"the variable {named.removeprefix(_VARIABLE)} is not set"
    context = None if server.security == "none" else ssl.create_default_context()
    try:
        if server.security == "tls":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT, context=context)
        else:
            connection = smtplib.SMTP(host, port, timeout=TIMEOUT)
        with connection:
            if server.security == "starttls":
                connection.starttls(context=context)
            if user is not None and password is not None:
                connection.login(user, password)
            connection.send_message(message)
    except smtplib.SMTPResponseException as error:
        return f"the mail server answered {error.smtp_code}"
    except smtplib.SMTPException as error:
        return f"the mail server refused it ({type(error).__name__})"
    except ssl.SSLError as error:
        return f"the certificate of the mail server is not accepted ({error.reason})"
    except OSError as error:
        return f"the mail server {host}:{port} cannot be reached ({type(error).__name__})"
    return None


def _value(text: str | None) -> str | None:
    """The text, or the value of the variable that it names; None if that is not set."""
    if text is None or not text.startswith(_VARIABLE):
        return text
    return os.environ.get(text.removeprefix(_VARIABLE))
