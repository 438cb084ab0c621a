"""Inputs of artefacts, and the tokenizer that they were made with."""

from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import Tokenizer
from schemas.errors import StoreError


def inputs(store: Store, artefact: Artefact, stage: str) -> list[Artefact]:
    """Return the direct and indirect inputs of an artefact that belong to a stage."""
    by_key = {artefact.key: artefact for artefact in store.artefacts()}
    waiting = [artefact]
    seen: dict[str, Artefact] = {}
    while waiting:
        for record in waiting.pop().manifest.inputs:
            if record.key in by_key and record.key not in seen:
                seen[record.key] = by_key[record.key]
                waiting.append(by_key[record.key])
    return [artefact for artefact in seen.values() if artefact.manifest.stage == stage]


def tokenizer_of(store: Store, artefact: Artefact) -> Tokenizer:
    """Return the tokenizer with which rows or tokens were encoded.

    Raises:
        StoreError: if the tokenizer was deleted, naming its folder.
    """
    if found := inputs(store, artefact, "tokenizers"):
        return tokenizer_in(found[0])
    keys = [record.key for record in artefact.manifest.inputs if record.name == "tokenizer"]
    raise StoreError(
        str(store.root.joinpath("tokenizers", *(key[:KEY_DIGITS] for key in keys))),
        cause=f"it is gone, and {artefact.path.relative_to(store.root)} was made with it",
        cure="Restore it or build again; --json needs no tokenizer",
    )


def tokenizer_in(artefact: Artefact) -> Tokenizer:
    """Load the tokenizer of a tokenizer artefact."""
    return load_tokenizer(artefact)
