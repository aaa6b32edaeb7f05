"""Renders LCTL documents: the chain as a flowchart, facts with their confidence, differences."""
