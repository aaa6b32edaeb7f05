"""Rewrites plans of version 1 in version 2, with the same meaning."""

from callsheet.frontends.upgrade.plan import upgraded

__all__ = ["upgraded"]
