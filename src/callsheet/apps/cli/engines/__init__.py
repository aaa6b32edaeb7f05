"""What the command line says to engines that carry runs over several machines."""
