"""Whether the tests run on a wheel whose inner loop is compiled, and what cannot be asked of one."""

from __future__ import annotations

import pytest

import callsheet.machine.machine

IS_COMPILED = not callsheet.machine.machine.__file__.endswith(".py")
looks_inside = pytest.mark.skipif(
    IS_COMPILED, reason="functions of a compiled module are neither watched nor replaced from outside"
)
"""For tests that do either."""
