"""Third-party engines that run plans on several machines: the same machine, driven by their histories."""
