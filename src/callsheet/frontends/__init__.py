"""Text to plan and back: one value grammar, three syntaxes (LTP text, Micro-CLI, JSON DAG)."""
