"""The library that users import and that faces stand on: plans, runtimes, runs, their events.

`callsheet/__init__.py` names what is public. No second parser, interpreter or model of steps:
everything here stands on the IR, the machine and the drivers.
"""
