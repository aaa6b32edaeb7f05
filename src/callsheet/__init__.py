"""callsheet: plans of tool calls, proved before they run, run crash-safe, explained afterwards."""

__version__ = "0.1.0.dev0"
