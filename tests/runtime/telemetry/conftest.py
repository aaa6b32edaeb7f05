"""Fixture: a collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.collector import Collector


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()
