"""`python -m callsheet`: the command line."""

from callsheet.apps.cli.main import main

main()
