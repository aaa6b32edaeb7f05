"""The version of callsheet, for the layers that must not import the package itself."""

VERSION = "0.1.0"
"""As in `pyproject.toml`."""
