"""Whether a program runs a file: as a script, as a module, as a test, by what it reads and evaluates."""

from callsheet.policy.running.collecting import collectors_of
from callsheet.policy.running.languages import runs_file

__all__ = ["collectors_of", "runs_file"]
