"""A run as OpenTelemetry tells of it: spans, events, metrics; and as OTLP carries that."""
