"""Drivers of the machine: they feed it events and carry out its commands."""
