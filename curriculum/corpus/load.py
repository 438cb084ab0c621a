"""Loading of corpora by name or path, and the sample repositories, which are shipped as git bundles."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.domains import is_path, load_domains
from curriculum.corpus.sources import make_folder_once
from schemas.corpus import CorpusEntry, CorpusSpec, RepositorySpec
from schemas.errors import CorpusError
from schemas.mistakes import locate, nearest
from schemas.regular_files import expanded
from schemas.text import line_of, named, parse, read_yaml, text_of

SAMPLES = Path(__file__).parent.parent / "corpora" / "sample"
ROOT = "@ROOT@"
"""Placeholder for the path of the work tree in a shipped compile_commands.json."""


def sample_names() -> list[str]:
    """Return the names of the sample repositories, sorted."""
    return sorted(file.stem for file in SAMPLES.glob("*.bundle"))


def unpack_samples(folder: Path) -> list[Path]:
    """Unpack all sample repositories as work trees under `folder`.

    A sample may come with a compile_commands.json. Folders that exist already stay as they are. Commit ids
    don't depend on the folder.

    Raises:
        CorpusError: if no sample is shipped, or git can't unpack one.
    """
    names = sample_names()
    if not names:
        raise CorpusError(
            str(SAMPLES),
            cause="no sample repository is installed there",
            cure="Reinstall the package",
        )
    return [_unpack(name, folder.absolute() / name) for name in names]


def _unpack(name: str, target: Path) -> Path:
    return make_folder_once(target, lambda draft: _fill(name, draft, root=target))


def _fill(name: str, draft: Path, *, root: Path) -> None:
    bundle = SAMPLES / f"{name}.bundle"
    git.transfer("clone", "--quiet", "--template=", "--", str(bundle), str(draft))
    database = SAMPLES / f"{name}.compile_commands.json"
    if database.is_file():
        text = database.read_text(encoding="utf-8").replace(ROOT, str(root))
        (draft / "compile_commands.json").write_text(text, encoding="utf-8")


CORPORA = Path(__file__).parent.parent / "corpora"
MAX_NAME_LENGTH = 90
"""Maximum length of a name that is taken from a folder, so that a numeric suffix can be added."""


def load_corpus(name: str, home: Path | None = None) -> CorpusSpec:
    """Load a corpus by name or from a YAML file.

    A name is looked up in the workspace `home` first, as `<workspace>/corpora/NAME.yaml`, then among the
    shipped corpora. In the result, paths are absolute: `~` is the home folder, and other paths are relative
    to the file. Entries of `not_in`, which may be paths, are replaced by the names of these corpora.

    Raises:
        CorpusError: if there is no such corpus; with line and cure for each fault in the file or in its
            domain rules.
    """
    file = _file(name, home)
    text = text_of(file, error=CorpusError)
    corpus = parse(CorpusSpec, text, file=str(file), error=CorpusError)
    places = _entry_places(text, file)
    placed = tuple(
        _placed(spec, file.parent).found_at(places("repositories", at, spec))
        for at, spec in enumerate(corpus.repositories)
    )
    sources = tuple(
        source.model_copy(
            update={"path": str(file.parent.absolute() / expanded(source.path))}
        ).found_at(places("conversations", at, source))
        for at, source in enumerate(corpus.conversations)
    )
    domains = corpus.domains
    if is_path(domains):
        domains = str(file.parent.absolute() / expanded(domains))
    _require_domains(domains, text, file)
    others = tuple(_name_in(other, file.parent) for other in corpus.not_in)
    update = {
        "repositories": placed,
        "conversations": sources,
        "domains": domains,
        "not_in": others,
    }
    return corpus.model_copy(update=update)


def _name_in(corpus: str, folder: Path) -> str:
    """Return the name of `corpus`, which is a name or the path of a file relative to `folder`."""
    if not is_path(corpus):
        return corpus
    file = folder.absolute() / expanded(corpus)
    text = text_of(file, error=CorpusError)
    return parse(CorpusSpec, text, file=str(file), error=CorpusError).name


def _entry_places(text: str, file: Path) -> Callable[[str, int, CorpusEntry], dict[str, str]]:
    """Return a function that finds a corpus entry in the text of its file.

    The function returns `file:line` of each field of the entry, by field name, and that of the entry itself.
    """
    node = read_yaml(text, file=str(file), error=CorpusError).node

    def places(listed: str, at: int, entry: CorpusEntry) -> dict[str, str]:
        locations = {
            "": (listed, at),
            **{name: (listed, at, name) for name in entry.model_fields_set},
        }
        return {name: f"{file}:{locate(node, where)[0]}" for name, where in locations.items()}

    return places


def _require_domains(domains: str, text: str, file: Path) -> None:
    """Check that the domain rules of a corpus are valid.

    If the rules don't exist, the error gives the line of the corpus file that names them.
    """
    try:
        load_domains(domains)
    except CorpusError as wrong:
        if wrong.name not in {"domains", domains}:
            raise
        line = line_of(text, ("domains",), file=str(file), error=CorpusError)
        raise CorpusError(
            f"{file}:{line}", f"domains = {domains!r}", cause=wrong.cause, cure=wrong.cure
        ) from None


def corpus_names(home: Path | None = None) -> list[str]:
    """Return the names of the shipped corpora and of those in the workspace `home`, sorted."""
    return [*_files(home)]


def _files(home: Path | None) -> dict[str, Path]:
    return named(CORPORA.glob("*.yaml"), home and home / "corpora")


def corpus_of_repositories(paths: Sequence[Path], *, name: str = "repositories") -> CorpusSpec:
    """Return a corpus of the repositories at `paths`, with default settings.

    Each repository is named after its folder. Repeated names get the suffixes `-2`, `-3` …; case is ignored
    when names are compared.

    Raises:
        CorpusError: if no path is given.
    """
    if not paths:
        raise CorpusError(
            "repositories",
            "none",
            cause="a corpus needs at least one repository",
            cure="Give the path of a repository",
        )
    names: list[str] = []
    for path in paths:
        names.append(_distinct(_name_of(path), names))
    pins = [
        RepositorySpec(name=distinct, path=str(expanded(path).absolute()))
        for distinct, path in zip(names, paths, strict=True)
    ]
    return CorpusSpec(name=name, repositories=tuple(pins))


def _file(name: str, home: Path | None) -> Path:
    known = _files(home)
    if name in known:
        return known[name]
    path = expanded(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    where = "no corpus of the workspace or shipped corpus" if home else "no shipped corpus"
    missing = "there is no such file" if is_path(name) else f"{where} has that name"
    raise CorpusError("corpus", repr(name), cause=missing, cure=nearest(name, known))


def _placed(spec: RepositorySpec, folder: Path) -> RepositorySpec:
    placed: dict[str, str] = {}
    beside = folder.absolute()
    if spec.path is not None:
        path = beside / expanded(spec.path)
        placed["path"] = str(path)
        beside = path if path.is_dir() else beside
    if spec.compile_commands is not None:
        placed["compile_commands"] = str(beside / expanded(spec.compile_commands))
    return spec.model_copy(update=placed)


def _name_of(path: Path) -> str:
    """Return a name for the repository at `path` that is safe in paths: `My Repo.git` becomes `My-Repo`."""
    folder = expanded(path).absolute()
    last = folder.parent.name if folder.name == ".git" else folder.name
    last = re.sub(r"\.(?:git|bundle)$", "", last)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", last).lstrip("._-")[:MAX_NAME_LENGTH].rstrip("-")
    return safe or "repository"


def _distinct(name: str, taken: Sequence[str]) -> str:
    used = {other.casefold() for other in taken}
    number, wanted = 1, name
    while wanted.casefold() in used:
        number += 1
        wanted = f"{name}-{number}"
    return wanted
