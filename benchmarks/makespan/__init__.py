"""Measures how close the scheduler comes to the least time that a graph of steps can take."""
