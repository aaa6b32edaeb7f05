"""Analyses of recorded runs and of hand-offs between agents: lineage, blame, comparison, LCTL documents."""
