"""Command-line support for durable execution engines that run plans on several machines."""
