"""An index of a repository at one commit, made by libclang over a compilation database.

Only making an index needs libclang (the extra `clang`); reading one doesn't.
"""
