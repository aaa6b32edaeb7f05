"""The version of what plans mean: one number, raised when the same events would lead elsewhere.

A run is carried on only by the version that began it. What adds to the meaning of plans that could
not run before leaves the number alone; the recorded journals of the tests say when it does not.
"""

MACHINE_VERSION = "1"
