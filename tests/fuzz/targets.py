"""Targets of fuzzing: how a case is made, and the reader that must accept or refuse it."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import BaseModel
from typer.testing import CliRunner

from curriculum.corpus.conversations import SkippedLines, find_conversations, read_conversations
from curriculum.corpus.domains import load_domains
from curriculum.corpus.header_languages import HeaderLanguages
from curriculum.corpus.load import load_corpus
from curriculum.corpus.paths import path_rules
from curriculum.foreign_tokenizers import load_foreign
from curriculum.graph.clang.database import read_database
from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.publish import Imported, RowFacts
from curriculum.interop.tokens_in import token_rows
from curriculum.mixing.diet_files import load_diet, load_phases
from curriculum.packing.row_check import check
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from curriculum.store.store import WorkspaceFile
from curriculum.tokens.codec import Roles
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from flows.cli import app
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.errors import CurriculumError, StoreError
from schemas.job import Heartbeat, Job, Report
from schemas.json_text import DIGEST, digest, read_json
from schemas.manifest import ExportRecord, Lease, Manifest
from schemas.phase_status import Approval, ClosedGate
from tests.curriculum.interop.in_process import publish
from tests.fuzz.material import table_of
from tests.fuzz.mutate import (
    Dice,
    broken_bytes,
    broken_json,
    broken_table,
    broken_tree,
    write_table,
)
from tests.sealing import artefact_around, republish

NOTHING = RowFacts(family=None, objective=None, variant=None, domain=None, split=None)
FAMILY = RowFacts(family="mine", objective=None, variant=None, domain=None, split=None)


class WrongError(AssertionError):
    """A case was taken that breaks a promise."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One kind of input from elsewhere."""

    spoil: Callable[[Path, Path, Dice], None]
    """Write a case into an empty folder, from the material's folder."""
    read: Callable[[Path, Path], None]
    """Read a case, with the material at hand; passes or raises a CurriculumError."""


def _seal(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    rest = {name: value for name, value in tree.items() if name != DIGEST}
    with contextlib.suppress(ValueError, RecursionError):
        return rest | {DIGEST: digest(rest)}
    return tree


def _spoil_json(file: Path, dice: Dice) -> None:
    """Change a JSON file: most often its tree, sealed again if it was."""
    data = file.read_bytes()
    if dice.random() < 0.2:
        file.write_bytes(broken_bytes(data, dice))
        return
    tree = json.loads(data)
    sealed = isinstance(tree, dict) and DIGEST in tree and dice.random() < 0.95
    text = broken_json(tree, dice, _seal if sealed else lambda each: each)
    file.write_bytes(
        text.encode(dice.choice(("utf-8",) * 18 + ("utf-16", "utf-8-sig")), "surrogatepass")
    )


def _spoil_parquet(file: Path, dice: Dice) -> None:
    if dice.random() < 0.4:
        file.write_bytes(broken_bytes(file.read_bytes(), dice))
    else:
        write_table(broken_table(table_of(file), dice), file, dice)


def _spoil_rows(material: Path, case: Path, dice: Dice) -> None:
    name = dice.choice(("rows-flat", "rows-structured"))
    table = table_of(material / name / "part-0.parquet")
    if dice.random() < 0.3:
        kept = {"input_ids", "loss_mask", *dice.sample(table.column_names, 8)}
        table = table.select([each for each in table.column_names if each in kept])
    files = [case / f"part-{number}.parquet" for number in range(dice.choice((1, 1, 2)))]
    for number, file in enumerate(files):
        pq.write_table(table.slice(3 * number), file)
    _spoil_parquet(dice.choice(files), dice)


def _read_rows(case: Path, material: Path) -> None:
    with _store(material) as (store, tokenizer, codec):
        labelled = "family" in _columns(case / "part-0.parquet")
        _published(store, tokenizer, parquet_rows(case, NOTHING if labelled else FAMILY, codec))


def _columns(file: Path) -> list[str]:
    try:
        return list(pq.read_schema(file).names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return []


@contextlib.contextmanager
def _store(material: Path) -> Any:
    """A workspace of its own, with the tokenizer of the material in it."""
    write_case = Store(material / "store")
    (tokenizer,) = write_case.artefacts("tokenizers")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.open()
        shutil.copytree(tokenizer.path, store.root / tokenizer.path.relative_to(write_case.root))
        yield store, tokenizer, load_tokenizer(tokenizer)


def _published(store: Store, tokenizer: Any, imported: Imported) -> None:
    write_case = publish(store, imported, tokenizer)
    found = check(write_case.path)
    if found.num_faults or not found.rows:
        raise WrongError(f"{found.rows} rows, {found.num_faults} faults: {found.faults[:1]}")


def _spoil_tokens(material: Path, case: Path, dice: Dice) -> None:
    form, name = dice.choice(("flat", "megatron")), dice.choice(("flat", "structured"))
    shutil.copytree(material / f"{form}-{name}", case, dirs_exist_ok=True)
    record = case / "export.json"
    bare = dice.random() < 0.4
    files = sorted(each for each in case.iterdir() if each.suffix in (".bin", ".idx", ".parquet"))
    if bare:
        record.unlink()
        files = [each for each in files if each.stem in ("tokens", "offsets")]
        if dice.random() < 0.2 and form == "flat":
            (case / "offsets.bin").unlink()
            files = [case / "tokens.bin"]
    for file in dice.sample(files, dice.choice((0, 1, 1, 1, 2)) % (len(files) + 1)):
        _spoil_parquet(file, dice) if file.suffix == ".parquet" else _spoil_numbers(file, dice)
    if bare:
        return
    tree = json.loads(record.read_bytes())
    tree["files"] = {each: (case / each).stat().st_size for each in tree["files"]}
    record.write_text(json.dumps(tree))
    if dice.random() < 0.4:
        _spoil_json(record, dice)


def _spoil_numbers(file: Path, dice: Dice) -> None:
    """Change bytes, or whole numbers where they lie."""
    data = bytearray(file.read_bytes())
    if dice.random() < 0.4:
        file.write_bytes(broken_bytes(bytes(data), dice))
        return
    kind = np.dtype(dice.choice(("<i8", "<i4", "<u2", "<u8")))
    for _ in range(dice.choice((1, 1, 2, 5))):
        first = dice.choice((0, 9, 17, 18, 26, 34)) if file.suffix == ".idx" else 0
        room = (len(data) - first) // kind.itemsize
        if room < 1:
            break
        at = first + kind.itemsize * dice.choice((0, 1, room - 1, dice.randrange(room))) % len(data)
        limits = np.iinfo(kind)
        value = dice.choice(
            (0, 1, limits.max, limits.min, limits.max - 1, 128, 1 << 15, limits.max // 2)
        )
        data[at : at + kind.itemsize] = np.array([value], dtype=kind).tobytes()
    file.write_bytes(data)


def _read_tokens(case: Path, material: Path) -> None:
    form: Any = "megatron" if (case / "tokens.idx").is_file() else "flat"
    with _store(material) as (store, tokenizer, codec):
        said = NOTHING if (case / "export.json").is_file() else FAMILY
        _published(store, tokenizer, token_rows(case, form, said, codec, 128))


def _spoil_tokenizer(material: Path, case: Path, dice: Dice) -> None:
    file = case / "tokenizer.json"
    tree = json.loads((material / "tokenizer" / "tokenizer.json").read_bytes())
    if dice.random() < 0.5:
        tree |= dice.choice(_PARTS)
    file.write_text(json.dumps(tree))
    if dice.random() < 0.9:
        _spoil_json(file, dice)


def _regex(pattern: str, kind: str = "Split", **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
        **more,
    }


_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_PATTERNS = (
    *(
        "(a+)+$",
        "(?:a|a)*b",
        "(a|aa)+$",
        "(.*)*x",
        "a*a*a*a*a*a*b",
        r"(\w+\s*)+;",
        r"^(?:.*,){20}P",
    ),
    *(
        "(?=(a+)+$)",
        "(" * 2000 + "a" + ")" * 2000,
        "(?:a{1000}){1000}",
        r"(a)\1*\1+b",
        "[" * 500,
        "\\",
    ),
    *(r"(?:(?:\p{L}{1,1000}){1,1000}){1,1000}", r"(?<=a{1,1000})b", r"\p{Nope}", "a{99999999}", ""),
    *(
        "(?:x?){50}x{50}",
        r"\s*[\r\n]+|.",
        r"a*b|\p{L}+",
        "(?~a)",
        "(?i:(?<n>a))+",
        r"\K",
        "a{,3}+b",
    ),
)
_PARTS: tuple[dict[str, Any], ...] = (
    *(
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [_regex(each), _BYTES]}}
        for each in _PATTERNS
    ),
    *(
        {"normalizer": _regex(each, "Replace", content="aa" * 1000)}
        for each in ("a", ".", "(a+)+$", "")
    ),
    {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [_regex("a", "Replace", content="aa")] * 40,
        }
    },
    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [_BYTES] * 40}},
    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Metaspace"}] * 40}},
    {"decoder": _regex("(a+)+$", "Replace", content="")},
    {"added_tokens": [{"id": 2**40, "content": "x", "special": True}]},
    {"added_tokens": [{"id": 1, "content": "x" * 10**6, "special": True}]},
    {"model": {"type": "BPE", "vocab": {"a": 2**31}, "merges": []}},
)


def _read_tokenizer(case: Path, material: Path) -> None:
    tokenizer = load_foreign(TokenizerTexts.read(case), Roles())
    for text in ("int x;\n", "a" * 20_000, " " * 20_000, "\n", "é👍\u0301" * 50):
        if tokenizer.decode_bytes(tokenizer.encode(text).tolist()) != text.encode():
            raise WrongError(f"{text[:20]!r} isn't kept")


_RECORDS: Mapping[str, type[BaseModel]] = {
    model.__name__: model
    for model in (
        *(
            Manifest,
            WorkspaceFile,
            Lease,
            Approval,
            ClosedGate,
            Heartbeat,
            Job,
            Report,
            ExportRecord,
        ),
    )
}


def _spoil_record(material: Path, case: Path, dice: Dice) -> None:
    name = dice.choice(sorted(_RECORDS))
    shutil.copy(material / "records" / f"{name}.json", case)
    _spoil_json(case / f"{name}.json", dice)


def _read_record(case: Path, material: Path) -> None:
    (file,) = case.iterdir()
    write_case = read_json(_RECORDS[file.stem], file, error=StoreError, cause="a", cure="b")
    write_case.model_dump_json()


def _spoil_yaml(material: Path, case: Path, dice: Dice) -> None:
    file = dice.choice(sorted((material / "yaml").iterdir()))
    data = file.read_bytes()
    to = case / f"{file.stem.partition('-')[0]}.yaml"
    kind = dice.randrange(4)
    if kind == 0:
        to.write_bytes(broken_bytes(data, dice))
    elif kind == 1:
        text = broken_json(yaml.safe_load(data), dice)
        to.write_bytes(text.encode(errors="surrogatepass"))
    elif kind == 2:
        lines = data.decode().splitlines()
        at = dice.randrange(len(lines))
        lines[at] = dice.choice(_LINES) if dice.random() < 0.5 else lines[at] + dice.choice(_LINES)
        to.write_text("\n".join(lines))
    else:
        tree = broken_tree(yaml.safe_load(data), dice)
        to.write_bytes(yaml.safe_dump(tree, allow_unicode=True).encode(errors="surrogatepass"))


_LINES = (
    *(
        "a: &a [1]\nb: *a",
        "<<: {a: 1}",
        "!!python/object/apply:os.system ['true']",
        "? [a, b]\n: 1",
    ),
    *(
        "---",
        "...",
        "%YAML 1.1",
        "a: |\n" + " x\n" * 100,
        "- " * 5_000 + "a",
        "[" * 10_000,
        "\t- a",
    ),
    *(
        "{a: " * 5_000,
        "a: 0x10",
        "a: 1_000_000",
        "a: .nan",
        "a: -.inf",
        "a: " + "9" * 5_000,
        "'",
        '"',
    ),
    *(
        "#",
        ": ",
        "? ",
        "a: 1e999",
        "a: 010",
        "exclude: ['" + "*a" * 40 + "*.cpp']",
        "date: 2020-13-45",
    ),
    *("when: path ~ '" + "(a+)+" * 10 + "$'", "x: '" + "(" * 9_000 + "'", "\x00", "\x85", "\u2028"),
    *("when: '" + "(" * 9_000 + "1" + ")" * 9_000 + " > 0'", "when: " + "NOT " * 3_000 + "true"),
    *("when: \"LENGTH(LPAD(path, 2000000000, 'x')) > 1\"", "when: num_bytes / 0 > 1"),
)


def _read_yaml(case: Path, material: Path) -> None:
    (file,) = case.iterdir()
    if file.stem == "domains":
        load_domains(str(file))
    elif file.stem == "phases":
        load_phases(str(file))
    elif file.stem == "diet":
        load_diet(str(file))
    else:
        corpus = load_corpus(str(file))
        for each in corpus.repositories:
            rules = path_rules(each, corpus, headers=HeaderLanguages(usual="cpp"))
            rules.verdict(b"a" * 200 + b"/" + b"a/" * 100 + b"a" * 200 + b".cpp")


def _spoil_talks(material: Path, case: Path, dice: Dice) -> None:
    file = case / "talks.jsonl"
    lines = (material / "talks.jsonl").read_text().splitlines()
    at = dice.randrange(len(lines))
    lines[at] = broken_json(json.loads(lines[at]), dice).replace("\n", " ")
    data = "\n".join(lines).encode(errors="surrogatepass")
    file.write_bytes(broken_bytes(data, dice) if dice.random() < 0.3 else data)


def _read_talks(case: Path, material: Path) -> None:
    found = find_conversations(ConversationsSpec(name="talks", path=str(case / "talks.jsonl")))
    repository = {"name": "a", "path": "/a"}
    corpus = CorpusSpec.model_validate({"name": "c", "repositories": [repository]})
    for each in read_conversations(found, corpus, SkippedLines()):
        repr(each).encode()


def _spoil_commands(material: Path, case: Path, dice: Dice) -> None:
    shutil.copy(material / "compile_commands.json", case)
    _spoil_json(case / "compile_commands.json", dice)


def _read_commands(case: Path, material: Path) -> None:
    read_database(case / "compile_commands.json", ["a.cc", "b.cc", "c.cc"], original=None)


def _spoil_workspace(material: Path, case: Path, dice: Dice) -> None:
    home = case / "workspace"
    shutil.copytree(material / "workspace", home)
    files = sorted(
        each for each in home.rglob("*") if each.is_file() and ".locks" not in each.parts
    )
    kinds = sorted({(each.name, each.suffix) for each in files})
    name, _ = dice.choice(kinds)
    file = dice.choice([each for each in files if each.name == name])
    if file.suffix == ".json":
        _spoil_json(file, dice)
    elif file.suffix == ".parquet":
        _spoil_parquet(file, dice)
    else:
        file.write_bytes(broken_bytes(file.read_bytes(), dice))
    if file.name != "manifest.json":
        with contextlib.suppress(Exception):
            republish(artefact_around(file))
    (case / "words.json").write_text(json.dumps(dice.choice(_COMMANDS)))


_COMMANDS = tuple(
    tuple(each.split(" "))
    for each in (
        *("status", "status --json", "check HOME", "check HOME/rows", "gc --yes", "inspect rows"),
        *(
            "inspect documents",
            "inspect mixtures",
            "inspect runs",
            "inspect fmt/syntax",
            "report fmt",
        ),
        *(
            "inspect open/syntax",
            "inspect rows --json",
            "inspect rows --full",
            "inspect tokenizers",
        ),
        *(
            "inspect fmt/syntax --step 1",
            "inspect HOME/runs",
            "inspect rows --html OTHER/page.html",
        ),
        *("lineage fmt/syntax", "lineage fmt/syntax --step 1", f"lineage {'a' * 40}"),
        *(
            "diff fmt/syntax fmt/file_graph",
            "compare fmt/syntax fmt/file_graph",
            "approve fmt/syntax",
        ),
        *("merge HOME --home OTHER", "export fmt/syntax --to OTHER/out"),
    )
) + tuple(
    ("query", sql)
    for sql in (
        *("SHOW TABLES", "SELECT * FROM artefacts", "FROM runs", "FROM rows", "FROM documents"),
        *("FROM metrics", "FROM mixtures", "FROM gates", "FROM problems", "FROM pieces"),
    )
)


def _read_workspace(case: Path, material: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = {"HOME": str(case / "workspace"), "OTHER": folder}
        words = []
        for word in json.loads((case / "words.json").read_text()):
            first, slash, rest = word.partition("/")
            words.append(places.get(first, first) + slash + rest)
        if "--home" not in words:
            words += ["--home", places["HOME"]] if words[0] != "check" else []
        _give(words)


def _give(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code == 2 and "Traceback" not in done.output:
        raise CurriculumError(words[0], cause=done.output[-200:], cure="Expected")
    if done.exit_code not in (0, 1, 3):
        raise WrongError(f"{words}: exit code {done.exit_code}")
    if "Traceback" in done.output:
        raise WrongError(f"{words}: {done.output[-500:]}")


TARGETS: Mapping[str, Target] = {
    "parquet": Target(spoil=_spoil_rows, read=_read_rows),
    "tokens": Target(spoil=_spoil_tokens, read=_read_tokens),
    "tokenizer": Target(spoil=_spoil_tokenizer, read=_read_tokenizer),
    "record": Target(spoil=_spoil_record, read=_read_record),
    "yaml": Target(spoil=_spoil_yaml, read=_read_yaml),
    "talks": Target(spoil=_spoil_talks, read=_read_talks),
    "commands": Target(spoil=_spoil_commands, read=_read_commands),
    "workspace": Target(spoil=_spoil_workspace, read=_read_workspace),
}


def _hang(case: Path, material: Path) -> None:
    while True:
        pass


def _grow(case: Path, material: Path) -> None:
    held = [bytearray(b"x" * (1 << 26)) for _ in range(30)]
    time.sleep(10 + len(held))


def _crash(case: Path, material: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise(case: Path, material: Path) -> None:
    raise KeyError("nothing")


def _spoil_nothing(material: Path, case: Path, dice: Dice) -> None:
    pass


KNOWN: Mapping[str, Target] = {
    **TARGETS,
    **{
        read.__name__: Target(spoil=_spoil_nothing, read=read)
        for read in (_hang, _grow, _crash, _raise)
    },
}
"""The targets, and those that show that the arena finds what it is there for."""
