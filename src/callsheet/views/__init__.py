"""Renders plans, journals and traces as text, diagrams and documents; pure functions."""
