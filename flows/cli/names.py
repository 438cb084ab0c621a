"""`curriculum ls`: diets, models, runs, rows and more by the names that other commands take, and by paths."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rich.text import Text

from curriculum.corpus.load import corpus_names, load_corpus
from curriculum.inspection.formats import Line, count
from curriculum.mixing.load import diet_names, load_diet, load_phases, phases_files
from curriculum.model.presets import PRESETS
from curriculum.pipeline.attempts import attempts_in, current_artefacts
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import METRICS
from flows.cli.app import Kind
from flows.cli.console import ACCENT, MUTED, out, print_json, print_line, table
from schemas.document import DATA
from schemas.errors import CurriculumError
from schemas.study import study_words


def list_names(home: Path, kind: Kind | None, *, as_json: bool) -> None:
    """Print the names of one kind, or of each, with what tells them apart.

    A file that can't be read is listed with its error in place of a description.
    """
    kinds = [kind] if kind is not None else [*Kind]
    listed = {each.value: [*_LISTED[each](home)] for each in kinds}
    if as_json:
        print_json(listed)
        return
    for name, lines in listed.items():
        out.print(Text(name, f"bold {ACCENT}"))
        if lines:
            out.print(table(lines))
        else:
            out.print(Text("none yet", MUTED))
        out.print()


_FOLDERS = {Kind.ROWS: DATA, Kind.DOCUMENTS: DATA, Kind.RUNS: METRICS}
"""Folder, in an artefact of each kind, of the Parquet files that other tools read."""


def list_paths(home: Path, kind: Kind | None, *, as_json: bool) -> None:
    """Print the folder of Parquet files of each current data set of a kind; those without files have none.

    Raises:
        CurriculumError: for a kind that isn't Parquet.
    """
    if kind is None or kind not in _FOLDERS:
        raise CurriculumError(
            "--paths",
            None if kind is None else kind.value,
            cause="only data sets of rows, documents and runs are folders of Parquet files",
            cure=f"Name one of these kinds: {', '.join(_FOLDERS)}",
        )
    current = current_artefacts(Store(home, dry=True), kind.value)
    folders = [each.path / _FOLDERS[kind] for each in current]
    paths = [str(folder) for folder in folders if folder.is_dir()]
    if as_json:
        print_json({kind.value: paths})
        return
    for path in paths:
        print_line(path)


def _diets(home: Path) -> Iterator[Line]:
    for name in diet_names(home):
        try:
            diet = load_diet(name, home=home)
        except CurriculumError as wrong:
            yield {"name": name, "tokens": "", "model": "", "phases": str(wrong)}
            continue
        yield {
            "name": name,
            "tokens": count(diet.token_budget),
            "model": diet.model,
            "phases": ", ".join(each.phase for each in diet.phases),
        }


def _corpora(home: Path) -> Iterator[Line]:
    for name in corpus_names(home):
        yield {"name": name, "repositories": _described(_corpus, name, home)}


def _corpus(name: str, home: Path) -> str:
    return ", ".join(each.name for each in load_corpus(name, home).repositories)


def _models(home: Path) -> Iterator[Line]:
    for name, preset in PRESETS.items():
        yield {"name": name, "width": preset.width, "blocks": preset.blocks}


def _phases(home: Path) -> Iterator[Line]:
    for file in phases_files(home):
        yield {"name": file, "phases": _described(_phases_file, file, home)}


def _phases_file(name: str, home: Path) -> str:
    phases = load_phases(name, home).items()
    lengths = {phase: "/".join(map(str, spec.row_lengths)) for phase, spec in phases}
    return ", ".join(f"{phase} {length}" for phase, length in lengths.items())


def _described(describe: Callable[[str, Path], str], name: str, home: Path) -> str:
    try:
        return describe(name, home)
    except CurriculumError as wrong:
        return str(wrong)


def _runs(home: Path) -> Iterator[Line]:
    runs = attempts_in(Store(home, dry=True))
    has_studies = any(each.job.study for each in runs)
    for each in runs:
        yield {
            "name": each.name,
            "attempt": each.job.attempt,
            "key": each.job.run_key[:KEY_DIGITS],
            "begun": each.job.begun[:16].replace("T", " "),
            **({"study": study_words(each.job.study)} if has_studies else {}),
        }


def _rows(home: Path) -> Iterator[Line]:
    return map(_data_set, current_artefacts(Store(home, dry=True), Kind.ROWS.value))


def _documents(home: Path) -> Iterator[Line]:
    return map(_data_set, current_artefacts(Store(home, dry=True), Kind.DOCUMENTS.value))


def _data_set(artefact: Artefact) -> Line:
    labels = artefact.manifest.labels.items()
    words = (f"{label} {value}" if value.isdigit() else value for label, value in labels)
    return {"name": artefact.key[:KEY_DIGITS], "data set": ", ".join(words)}


_LISTED: Mapping[Kind, Callable[[Path], Iterator[Line]]] = {
    Kind.DIETS: _diets,
    Kind.CORPORA: _corpora,
    Kind.MODELS: _models,
    Kind.PHASES: _phases,
    Kind.RUNS: _runs,
    Kind.ROWS: _rows,
    Kind.DOCUMENTS: _documents,
}
