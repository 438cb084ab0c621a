"""`python -m flows.cli`: the command line, run by this interpreter."""

from flows.cli import main

main()
