"""Throughput of the objectives: million tokens per CPU second of each, medians of rounds.

python benchmarks/objectives.py REPOSITORY [--family v2_simple] [--row-length 4096] [--rounds 5]

Documents of a git repository, tokenised and fitted before the clock runs; objectives take turns.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.encode import FitResult, Fitter, TokenizedDocument, encode_documents, policy_of
from curriculum.families.document_writer import DocumentWriter
from curriculum.families.render import render
from curriculum.objectives import objective_of
from curriculum.parquet import shards_of
from curriculum.stages.row_sources import apply_objective
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from curriculum.tokens.train import train_tokenizer
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document
from schemas.objectives import OBJECTIVES

Given = tuple[TokenizedDocument, FitResult]
VOCABULARY = 16_384


def documents(path: Path, family: str, cache: Path) -> Iterator[Document]:
    spec = RepositorySpec(name="repository", path=str(path))
    corpus = CorpusSpec(name="one", repositories=(spec,), history=HistorySpec())
    for change in read_changes(resolve(spec, cache=cache), spec, corpus, Skips()):
        yield from render(change, (family,)).documents


def fitted(found: list[Document], row_length: int, folder: Path) -> tuple[Tokenizer, list[Given]]:
    """Inputs of an objective, in memory."""
    texts = [document.text for document in found]
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=VOCABULARY).decode())
    with DocumentWriter(folder) as writer:
        for document in found:
            writer.append(document)
    files = shards_of(folder)
    tokenize_documents(files, tokenizer, folder)
    policy = policy_of(found[0].family)
    fitter = Fitter.from_tokenizer(tokenizer, row_length=row_length - 16, policy=policy)
    given: list[Given] = []

    def keep(document: TokenizedDocument, fitted: FitResult) -> FitResult:
        given.append((document, fitted))
        return fitted

    for _ in encode_documents(files, TokenStore.open(folder), fitter, objective=keep):
        pass
    return tokenizer, given


def seconds(
    objective: str, tokenizer: Tokenizer, given: list[Given], row_length: int
) -> tuple[float, Counter[str]]:
    built = objective_of(objective, tokenizer, variant=0)
    teach, counts = apply_objective(built, tokenizer, row_length=row_length), Counter[str]()
    begin = time.process_time()
    for document, fitted in given:
        for name, number in teach(document, replace(fitted)).objective_counts:
            counts[name] += number
    return time.process_time() - begin, counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("repository", type=Path)
    parser.add_argument("--family", default="v2_simple")
    parser.add_argument("--row-length", type=int, default=4096)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(
            islice(documents(options.repository, options.family, Path(folder)), options.documents)
        )
        tokenizer, given = fitted(found, options.row_length, Path(folder))
        tokens = sum(len(each.ids) for _, done in given for each in done.encodings)
        encodings = sum(len(done.encodings) for _, done in given)
        print(
            f"{len(found)} documents of {options.family}, {encodings} encodings, {tokens:,} tokens"
        )
        names = [each for each in OBJECTIVES if each != "chat"]
        rounds = [
            {name: seconds(name, tokenizer, given, options.row_length) for name in names}
            for _ in range(options.rounds)
        ]
        for name in names:
            rate = tokens / statistics.median(each[name][0] for each in rounds) / 1e6
            print(f"{name:12} {rate:6.1f} M tokens/s   {dict(rounds[0][name][1])}")


if __name__ == "__main__":
    main()
