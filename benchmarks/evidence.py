"""Results of ablations, copied from a workspace into benchmarks/results/ablations.

    python benchmarks/evidence.py WORKSPACE small

writes four files into benchmarks/results/ablations/small/:

    claims.csv         one row per claim, then null and control: the view `ablations`
    arms.csv           one row per arm, seed, set and view: the view `ablation_arms`
    documents.parquet  sums of each document of the fixed sets after the last phase, by arm, seed and view
    setting.json       model, corpus, row lengths and date

docs/evidence.md shows claims.csv. Other differences between two arms can be computed from the other files.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from curriculum.ablations.measurements import DOCUMENTS_NAME
from curriculum.inspection.formats import difference
from curriculum.inspection.runs import report_of
from curriculum.pipeline.attempts import current_artefacts
from curriculum.store import Artefact, Store
from curriculum.train import document_sums
from curriculum.train.run_directory import JOB, read_job
from schemas.ablation import ARMS_NAME, BASE, CLAIMS_NAME, FILE_VIEW, viewed_set
from schemas.objectives import FIXED_SETS
from schemas.reports import AblationReport

RESULTS = Path(__file__).parent / "results" / "ablations"
CLAIMS, ARMS, DOCUMENTS, SETTING = "claims.csv", "arms.csv", "documents.parquet", "setting.json"
STRATUM = ("set", "family", "objective", "domain")
"""Columns that name a stratum of a fixed set. The documents of a stratum share the column `weight`."""


def main() -> None:
    """Copy the current result of each named ablation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("ablations", nargs="+")
    given = parser.parse_args()
    store = Store(given.workspace)
    known = {
        made.manifest.labels["ablation"]: made for made in current_artefacts(store, "ablations")
    }
    for name in given.ablations:
        if name not in known:
            parser.error(f"{name} isn't an ablation of {given.workspace}, which has {[*known]}")
        write_results(store, known[name], RESULTS / name)
        print(RESULTS / name)


def write_results(store: Store, made: Artefact, folder: Path) -> None:
    """Write the four files of an ablation's result into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(pq.read_table(made.path / CLAIMS_NAME), folder / CLAIMS)
    arms = pq.read_table(made.path / ARMS_NAME).drop_columns(["run"])
    pyarrow.csv.write_csv(arms, folder / ARMS)
    documents = pa.concat_tables(documents_of(store, made))
    pq.write_table(documents, folder / DOCUMENTS, compression="zstd")
    report = made.reported(AblationReport)
    setting = report.model_dump(
        mode="json", include={"why", "corpus", "model", "weights", "row_lengths"}
    )
    setting["date"] = made.manifest.created[:10]
    (folder / SETTING).write_text(json.dumps(setting, indent=1) + "\n")


def documents_of(store: Store, made: Artefact) -> Iterator[pa.Table]:
    """Yield the documents of each run and of each measurement that an ablation was judged by."""
    known = {artefact.key: artefact for artefact in store.artefacts()}
    for given in made.manifest.inputs:
        arm, seed, *view = given.name.split()
        artefact = known[given.key]
        documents, weights = _measurement_of(artefact) if view else _last_evaluation_of(artefact)
        fixed = documents.filter(pc.is_in(documents["set"], pa.array(FIXED_SETS)))
        table = fixed.select([*STRATUM, "document_id", "lineage", "nats", "bytes"])
        named = {"arm": arm, "seed": int(seed), "view": "".join(view) or FILE_VIEW}
        for number, (name, value) in enumerate(named.items()):
            table = table.add_column(number, name, pa.array([value] * len(table)))
        strata = zip(*(table[name].to_pylist() for name in STRATUM), strict=True)
        yield table.append_column("weight", pa.array([weights[stratum] for stratum in strata]))


Weights = dict[tuple[str, ...], float]
"""Weight of each stratum in the mean of its set."""


def _last_evaluation_of(run: Artefact) -> tuple[pa.Table, Weights]:
    documents = document_sums.read(run.path, report_of(run).steps)
    assert documents is not None, "our trainer writes the documents of each evaluation"
    evaluations = read_job(run.path / JOB).evaluations
    return documents, _weights(evaluation.model_dump() for evaluation in evaluations)


def _measurement_of(made: Artefact) -> tuple[pa.Table, Weights]:
    evaluations: Any = made.manifest.config["evaluations"]
    return pq.read_table(made.path / DOCUMENTS_NAME), _weights(evaluations)


def _weights(evaluations: Iterable[Mapping[str, Any]]) -> Weights:
    found: Weights = {}
    for evaluation in evaluations:
        if evaluation["set"] not in FIXED_SETS:
            continue
        for stratum in evaluation["strata"]:
            place = (evaluation["set"], *(stratum[name] for name in STRATUM[1:]))
            assert place not in found, "the rows of a fixed set have one length"
            found[place] = stratum["weight"]
    return found


def committed() -> list[Path]:
    """Return the folders of all copied results, sorted by name."""
    return sorted(folder for folder in RESULTS.iterdir() if folder.is_dir())


def section(folder: Path) -> str:
    """Return the scale and the claims of copied results, for docs/evidence.md."""
    return f"{setting_words(folder)}\n\n{claims_table(folder)}"


def claims_table(folder: Path) -> str:
    """Return the claims of copied results as a Markdown table, followed by null and control."""
    lines = ["| claim | set | difference | 95 % over seeds | 95 % over documents | p | verdict |"]
    lines.append("|---|---|---|---|---|---|---|")
    for claim in pyarrow.csv.read_csv(folder / CLAIMS).to_pylist():
        verdict = claim["verdict"]
        if claim["seeds_needed"] is not None and verdict == "too small to tell":
            verdict += f": {claim['seeds_needed']} seeds needed"
        cells = (
            f"{claim['claim']} (`{claim['arm']}` − `{claim['against']}`)",
            viewed_set(claim["set"], claim["view"]),
            difference(claim["difference"]),
            _interval(claim["low"], claim["high"]),
            _interval(claim["low_documents"], claim["high_documents"]),
            f"{claim['holm_p']:.3f}",
            verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def setting_words(folder: Path) -> str:
    """Return the scale of copied results as one sentence."""
    setting = json.loads((folder / SETTING).read_text())
    base = next(
        arm for arm in pyarrow.csv.read_csv(folder / ARMS).to_pylist() if arm["arm"] == BASE
    )
    seeds = pyarrow.csv.read_csv(folder / CLAIMS)["seeds"][0].as_py()
    lengths = " and ".join(f"{length:,}" for length in setting["row_lengths"])
    return (
        f"Scale: model `{setting['model']}` ({setting['weights'] / 1e6:.2f}M weights), "
        f"{base['positions']:,} row positions per arm in rows of {lengths} tokens, "
        f"{base['scored']:,} scored and {base['distinct']:,} distinct tokens of `base`, "
        f"{seeds} seeds, corpus `{setting['corpus']}`, {setting['date']}."
    )


def _interval(low: float, high: float) -> str:
    return f"{difference(low)} to {difference(high)}"


if __name__ == "__main__":
    main()
