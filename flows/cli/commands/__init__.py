"""Commands of `curriculum`, grouped by the panels of its help.

Commands import their modules when they are called, so that --help is fast.
"""
