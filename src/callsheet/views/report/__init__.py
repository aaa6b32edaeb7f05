"""Builds the report of a run: the document for the viewer, and an HTML page with viewer and document."""
