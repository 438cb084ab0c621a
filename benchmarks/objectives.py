"""Throughput of the objectives in million tokens per CPU second.

    python benchmarks/objectives.py REPOSITORY [--family v2_simple] [--row-length 4096] [--rounds 5]

The script renders documents of a git repository, tokenizes them and fits them to the row length. Then it
measures only the objectives, in alternating rounds, and prints their medians and counts.
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

FittedDocument = tuple[TokenizedDocument, FitResult]
VOCABULARY = 16_384


def render_documents(path: Path, family: str, cache: Path) -> Iterator[Document]:
    spec = RepositorySpec(name="repository", path=str(path))
    corpus = CorpusSpec(name="one", repositories=(spec,), history=HistorySpec())
    for change in read_changes(resolve(spec, cache=cache), spec, corpus, Skips()):
        yield from render(change, (family,)).documents


def fit_documents(
    found: list[Document], row_length: int, folder: Path
) -> tuple[Tokenizer, list[FittedDocument]]:
    """Tokenize documents and fit them to the row length; return the inputs of an objective."""
    texts = [document.text for document in found]
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=VOCABULARY).decode())
    with DocumentWriter(folder) as writer:
        for document in found:
            writer.append(document)
    files = shards_of(folder)
    tokenize_documents(files, tokenizer, folder)
    policy = policy_of(found[0].family)
    fitter = Fitter.from_tokenizer(tokenizer, row_length=row_length - 16, policy=policy)
    given: list[FittedDocument] = []

    def keep(document: TokenizedDocument, result: FitResult) -> FitResult:
        given.append((document, result))
        return result

    for _ in encode_documents(files, TokenStore.open(folder), fitter, objective=keep):
        pass
    return tokenizer, given


def measure(
    objective: str, tokenizer: Tokenizer, given: list[FittedDocument], row_length: int
) -> tuple[float, Counter[str]]:
    built = objective_of(objective, tokenizer, variant=0)
    apply, counts = apply_objective(built, tokenizer, row_length=row_length), Counter[str]()
    begin = time.process_time()
    for document, result in given:
        for name, number in apply(document, replace(result)).objective_counts:
            counts[name] += number
    return time.process_time() - begin, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path, help="git repository")
    parser.add_argument("--family", default="v2_simple", help="family of the documents")
    parser.add_argument("--row-length", type=int, default=4096, help="row length in tokens")
    parser.add_argument("--documents", type=int, default=2000, help="maximum number of documents")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(
            islice(
                render_documents(options.repository, options.family, Path(folder)),
                options.documents,
            )
        )
        tokenizer, given = fit_documents(found, options.row_length, Path(folder))
        tokens = sum(len(encoding.ids) for _, result in given for encoding in result.encodings)
        encodings = sum(len(result.encodings) for _, result in given)
        print(
            f"{len(found)} documents of {options.family}, {encodings} encodings, {tokens:,} tokens"
        )
        names = [name for name in OBJECTIVES if name != "chat"]
        rounds = [
            {name: measure(name, tokenizer, given, options.row_length) for name in names}
            for _ in range(options.rounds)
        ]
        for name in names:
            rate = tokens / statistics.median(result[name][0] for result in rounds) / 1e6
            print(f"{name:12} {rate:6.1f} M tokens/s   {dict(rounds[0][name][1])}")


if __name__ == "__main__":
    main()
