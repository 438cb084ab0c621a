"""Diets as data: the YAML files of the specialists, and how they are loaded by name."""
