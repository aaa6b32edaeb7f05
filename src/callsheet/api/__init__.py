"""The Python library: plans, runtimes, runs and their events. The applications in `apps` are built on it.

`callsheet/__init__.py` lists the public names. Nothing is parsed or interpreted here a second time: the
library uses the IR, the machine and the drivers.
"""
