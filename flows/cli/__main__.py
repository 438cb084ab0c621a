"""`python -m flows.cli`: the command line of this very interpreter."""

from flows.cli import main

main()
