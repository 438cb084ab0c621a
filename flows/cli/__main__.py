"""`python -m flows.cli`: run the command line with this Python interpreter."""

from flows.cli import main

main()
