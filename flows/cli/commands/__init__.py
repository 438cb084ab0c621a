"""The commands, by what people want: make, plan diets, look, ask, try models, keep.

Each imports what it needs when it is called, so that help is there at once.
"""
