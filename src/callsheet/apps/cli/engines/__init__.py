"""Command-line support for engines that run plans on several machines."""
