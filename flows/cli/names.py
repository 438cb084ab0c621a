"""`curriculum ls`: list the names that other commands accept, or the paths of their files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.corpus.load import corpus_names, load_corpus
from curriculum.mixing.diet_files import diet_names, load_diet, load_phases, phases_files
from curriculum.model.presets import PRESETS
from curriculum.pipeline.attempts import attempts_in, current_artefacts
from curriculum.store import Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import METRICS
from flows.cli.app import NamedKind
from flows.cli.console import ACCENT, MUTED, out, print_json, print_line, table
from schemas.document import DATA
from schemas.errors import CurriculumError
from schemas.study import study_words

Named = Mapping[str, object]
"""Name that commands accept, and its description."""


def list_names(home: Path, kind: NamedKind | None, *, as_json: bool) -> None:
    """Print the names of one kind or of all kinds, each with a short description.

    A file that can't be read is listed with its error instead of a description.
    """
    kinds = [kind] if kind is not None else [*NamedKind]
    listed = {kind.value: [*_LISTED[kind](home)] for kind in kinds}
    if as_json:
        print_json(listed)
        return
    for name, lines in listed.items():
        out.print(Text(name, f"bold {ACCENT}"))
        out.print(table(lines) if lines else Text("none yet", MUTED))
        out.print()


_FOLDERS = {NamedKind.ROWS: DATA, NamedKind.DOCUMENTS: DATA, NamedKind.RUNS: METRICS}
"""Folder inside an artefact with the Parquet files that other tools read, by kind."""


def list_paths(home: Path, kind: NamedKind | None, *, as_json: bool) -> None:
    """Print the folder with the Parquet files of each current artefact of a kind.

    Artefacts without such a folder are skipped.

    Raises:
        CurriculumError: for a kind without Parquet files.
    """
    if kind is None or kind not in _FOLDERS:
        raise CurriculumError(
            "--paths",
            None if kind is None else kind.value,
            cause="only rows, documents and runs are folders of Parquet files",
            cure=f"Give one of these kinds: {', '.join(_FOLDERS)}",
        )
    current = current_artefacts(Store(home, dry=True), kind.value)
    folders = (artefact.path / _FOLDERS[kind] for artefact in current)
    paths = [str(folder) for folder in folders if folder.is_dir()]
    if as_json:
        print_json({kind.value: paths})
        return
    for path in paths:
        print_line(path)


def _diets(home: Path) -> Iterator[Named]:
    for name in diet_names(home):
        try:
            diet = load_diet(name, home=home)
        except CurriculumError as wrong:
            yield {"name": name, "tokens": None, "model": None, "phases": str(wrong)}
            continue
        phases = [phase.phase for phase in diet.phases]
        yield {"name": name, "tokens": diet.token_budget, "model": diet.model, "phases": phases}


def _corpora(home: Path) -> Iterator[Named]:
    for name in corpus_names(home):
        yield {"name": name, "repositories": _described(_corpus, name, home)}


def _corpus(name: str, home: Path) -> Sequence[str]:
    return [repository.name for repository in load_corpus(name, home).repositories]


def _models(home: Path) -> Iterator[Named]:
    for name, preset in PRESETS.items():
        yield {"name": name, "width": preset.width, "blocks": preset.blocks}


def _phases(home: Path) -> Iterator[Named]:
    for file in phases_files(home):
        yield {"name": file, "phases": _described(_phases_file, file, home)}


def _phases_file(name: str, home: Path) -> Sequence[str]:
    phases = load_phases(name, home).items()
    return [f"{phase} {'/'.join(map(str, spec.row_lengths))}" for phase, spec in phases]


def _described(
    describe: Callable[[str, Path], Sequence[str]], name: str, home: Path
) -> Sequence[str]:
    try:
        return describe(name, home)
    except CurriculumError as wrong:
        return str(wrong)


def _runs(home: Path) -> Iterator[Named]:
    for run in attempts_in(Store(home, dry=True)):
        job = run.job
        yield {
            "name": run.name,
            "attempt": job.attempt,
            "key": job.run_key,
            "begun": job.begun[:16].replace("T", " "),
            "study": study_words(job.study),
        }


def _data_sets(kind: NamedKind) -> Callable[[Path], Iterator[Named]]:
    def listed(home: Path) -> Iterator[Named]:
        for artefact in current_artefacts(Store(home, dry=True), kind.value):
            labels = artefact.manifest.labels.items()
            words = [f"{label} {value}" if value.isdigit() else value for label, value in labels]
            yield {"name": artefact.key[:KEY_DIGITS], "data_set": words}

    return listed


_LISTED: Mapping[NamedKind, Callable[[Path], Iterator[Named]]] = {
    NamedKind.DIETS: _diets,
    NamedKind.CORPORA: _corpora,
    NamedKind.MODELS: _models,
    NamedKind.PHASES: _phases,
    NamedKind.RUNS: _runs,
    NamedKind.ROWS: _data_sets(NamedKind.ROWS),
    NamedKind.DOCUMENTS: _data_sets(NamedKind.DOCUMENTS),
}
