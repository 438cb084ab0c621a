"""The commands, a file a panel of `curriculum --help`.

Each imports what it needs when it is called, so that help is there at once.
"""
