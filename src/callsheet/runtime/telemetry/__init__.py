"""Runs sent to collectors of OpenTelemetry, from their journals: afterwards, or beside the run."""
