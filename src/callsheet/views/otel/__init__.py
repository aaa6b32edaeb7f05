"""Maps a run to OpenTelemetry spans, events and metrics, and encodes them as OTLP."""
