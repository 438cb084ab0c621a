"""Packed rows on disk: write, read, check."""
