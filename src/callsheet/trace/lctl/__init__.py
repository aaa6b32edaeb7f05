"""LCTL v3, a format for hand-offs between agents: reads, checks, merges, receives and writes documents."""
