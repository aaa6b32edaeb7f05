"""Fixtures: a PostgreSQL server for the shared store, and its address with nothing in it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.postgres import Server, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of a process."""
    with running_server() as running:
        yield running


@pytest.fixture
def address(server: Server) -> str:
    """The address of an empty store."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS callsheet CASCADE")
    return server.address
