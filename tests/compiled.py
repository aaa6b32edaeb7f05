"""Whether the tests run on a compiled wheel, and which tests such a wheel cannot pass."""

from __future__ import annotations

import pytest

import callsheet.machine.machine

IS_COMPILED = not callsheet.machine.machine.__file__.endswith(".py")
looks_inside = pytest.mark.skipif(
    IS_COMPILED, reason="functions of a compiled module are neither watched nor replaced from outside"
)
"""For tests that do either."""
