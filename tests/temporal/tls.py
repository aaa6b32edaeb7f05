"""A TLS listener in front of a plain server; it requires client certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Papers:
    """The files of an authority, and the certificates and keys of a server and a client."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def papers(folder: Path) -> Papers:
    """New certificates for 127.0.0.1 and one client of it."""
    made = Papers(*(folder / name for name in ("ca.pem", "server.pem", "server.key", "me.pem", "me.key")))
    authority = ec.generate_private_key(ec.SECP256R1())
    made.authority.write_bytes(_certificate("an authority", authority, authority, is_authority=True))
    for certificate, key_file in ((made.server, made.server_key), (made.client, made.client_key)):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate.write_bytes(_certificate(certificate.stem, key, authority))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return made


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> bytes:
    now = datetime.now(UTC)
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
    places = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(places, critical=False)
        .sign(authority, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def in_front_of(address: str, held: Papers) -> AsyncGenerator[str]:
    """The address of a TLS listener that forwards the traffic of clients with a certificate to a server."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(held.server, held.server_key)
    context.load_verify_locations(held.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        with suppress(OSError):
            await asyncio.gather(_copied(reader, back), _copied(there, writer))

    listening = await asyncio.start_server(passed, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
