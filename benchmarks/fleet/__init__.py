"""Runs on several workers and a server that are killed at random moments."""
