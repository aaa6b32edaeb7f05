"""From records to understanding: hand-offs between agents, and what became of what they say."""
