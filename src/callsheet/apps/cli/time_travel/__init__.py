"""Time travel: replays recorded runs, and starts new runs from a point of an old one."""
