"""Sends runs to OpenTelemetry collectors, from their journals: after the run or during it."""
