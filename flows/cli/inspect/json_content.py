"""JSON of `curriculum inspect`: artefacts, and lines as they lie in the files."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from curriculum.inspection.checkpoint_weights import tensors
from curriculum.inspection.documents import Line, chosen_lines, document_lines
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.rows import origins_of, row_of
from curriculum.inspection.runs import report_of
from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state, checkpoints
from curriculum.pipeline.references import Reference
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.train.checkpoint_files import manifest_of, require_listed
from curriculum.train.run_directory import JOB, read_job
from flows.cli.inspect.checkpoints import saved_at, spec_at
from flows.cli.inspect.runs import figures_of
from flows.cli.inspect.tokenizers import controls, documents_of
from flows.settings.contexts import resources

LINED = ("rows", "mixtures", "selections", "runs")
"""Stages whose lines JSON shows as they lie in the files."""


def content(
    store: Store, found: Reference, options: InspectOptions, *, listed: bool = False
) -> dict[str, object]:
    """Return the found artefacts; of rows and documents the chosen lines, as they lie in the files."""
    if found.checkpoint is not None:
        return _checkpoint(found.checkpoint)
    if found.open_run is not None:
        return _open_run(store, found.open_run)
    if listed:
        return {"artefacts": [_artefact(each) for each in found.artefacts]}
    return _first(store, found.artefacts, options)


def _first(store: Store, found: Sequence[Artefact], options: InspectOptions) -> dict[str, object]:
    """The first artefact, and its lines; lines that are still wished then come of the next ones."""
    first = found[0]
    content = _artefact(first)
    match first.manifest.stage:
        case "runs":
            report = report_of(first)
            content["job"] = Attempt.at(first.path).job.model_dump(mode="json")
            content["figures"] = figures_of(first.path, report, options)
            content["checkpoints"] = _checkpoints(first.path)
        case "tokenizers":
            content["controls"] = controls(load_tokenizer(first))
    lines = [line for each in found for line in _lines(store, each, options)]
    if first.manifest.stage in (*LINED, "documents") or lines:
        content["lines"] = lines[: options.rows]
    return content


def _lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    stage = artefact.manifest.stage
    if stage == "documents":
        yield from document_lines(store, artefact, options)
    elif stage == "rows":
        for _, line in itertools.islice(chosen_lines(store, artefact, options), options.rows):
            yield {**line, "documents": _documents(store, artefact, line)}
    elif stage in LINED and (stage != "runs" or options.only.step or options.only.where):
        yield from (
            line
            for _, line in itertools.islice(chosen_lines(store, artefact, options), options.rows)
        )
    elif stage == "tokens" and options.only.given:
        made_of = documents_of(store, artefact)
        if made_of is not None:
            yield from document_lines(store, made_of, options)


def _documents(store: Store, artefact: Artefact, line: Line) -> list[dict[str, object]]:
    """The documents of a row, down to the commit."""
    row = row_of(line)
    known = origins_of(store, artefact, row)
    return [
        {
            "document_id": name,
            "repository": known[name].repository,
            "commit": known[name].commit,
            "path": known[name].path,
            "licence": known[name].licence,
            "start": start,
            "tokens": end - start,
            "scored": sum(row.loss_mask[start:end]),
        }
        for name, (start, end) in zip(row.document_ids, row.spans, strict=True)
    ]


def _artefact(artefact: Artefact) -> dict[str, object]:
    return {"path": str(artefact.path), "manifest": artefact.manifest.model_dump(mode="json")}


def _open_run(store: Store, begun: Attempt) -> dict[str, object]:
    stands = attempt_state(store, begun, SlotQueue.read(resources().slots_of(store.root)))
    return {
        "path": str(begun.path),
        "state": stands.state,
        "why": stands.why,
        "job": begun.job.model_dump(mode="json"),
        "checkpoints": _checkpoints(begun.path),
    }


def _checkpoint(path: Path) -> dict[str, object]:
    require_listed(path)
    spec, files = spec_at(path), manifest_of(path)
    job = read_job(path.parents[1] / JOB)
    return {
        "path": str(path),
        "manifest": files.model_dump(mode="json", include={"step", "files"}),
        "state": saved_at(path).model_dump(mode="json"),
        "model": spec.model_dump(mode="json") if spec else None,
        "job": job.model_dump(mode="json"),
        "weights": [
            {"name": each.name, "type": each.kind, "shape": list(each.shape)}
            for each in tensors(path)
        ],
    }


def _checkpoints(run: Path) -> list[dict[str, object]]:
    return [{"step": step, "path": str(path)} for step, path in sorted(checkpoints(run))]
