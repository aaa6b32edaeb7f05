"""The version of the machine's semantics, raised when the same events would lead to other results.

A run is continued only by the version that began it. A change that only affects plans which could not run
before does not raise it; the recorded journals in the tests show when it must be raised.
"""

MACHINE_VERSION = "1"
