"""A diet of two short phases over one sample repository: what it needs is built in seconds."""

import json
from pathlib import Path

from curriculum.corpus.load import SAMPLES

NAME = "tiny"
CORPUS = f"""
name: small
repositories:
  - name: lattice
    path: {json.dumps(str(SAMPLES / "lattice.bundle"))}
    licence: Apache-2.0
    max_commits: 6
files: [cpp, c, cmake, make]
val_fraction: 0.3
"""
DIET = """
specialist: tiny
phases_file: phases.demo
corpus: small
vocab_size: 400
model: tiny
token_budget: 4K
tokens_per_step: 1024
phases:
  - phase: syntax
    portion: 0.5
    servings: [{family: v2_simple, share: 0.6}, {family: v3_simple, share: 0.4}]
    max_repetition: 100
  - phase: file_graph
    portion: 0.5
    servings: [{family: v2_simple, share: 1}]
    max_repetition: 100
"""


def write_tiny_diet(home: Path) -> None:
    """Write the diet and its corpus into a workspace."""
    for file, text in (("corpora/small.yaml", CORPUS), ("diets/tiny.yaml", DIET)):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)


def edit(home: Path, file: str, before: str, now: str) -> None:
    """Change a text of a file of the workspace."""
    text = (home / file).read_text()
    assert before in text
    (home / file).write_text(text.replace(before, now))
