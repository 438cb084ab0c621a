import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from curriculum.model.decoder import Decoder
from curriculum.train import evaluation as module
from curriculum.train.dataloader import Batch, collate
from curriculum.train.document_sums import (
    DocumentSums,
    Pair,
    interval,
    keep_only,
    paired_change,
    read,
    seconds_of,
    write,
)
from curriculum.train.evaluation import (
    Cancelled,
    Evaluator,
    read_token_bytes,
    rows_of,
)
from curriculum.train.optimizer import new_train_state
from schemas.errors import SchemaError
from schemas.job import EVALUATED_SCHEMA
from tests.curriculum.train.conftest import lineage_of


def evaluator(world: Any, **changes: Any) -> Evaluator:
    job = world.job(**changes)
    return Evaluator(
        train_state=new_train_state(job, torch.device("cpu")),
        job=job,
        workspace=world.store.root,
        token_bytes=read_token_bytes(world.tokenizer.path),
        stop=lambda: False,
    )


@torch.no_grad()
def plainly(subject: Evaluator, domain: str) -> float:
    """Σ nll / ln 2 ÷ Σ bytes, row by row, with torch's own cross-entropy."""
    evaluation = subject.job.evaluations[0]
    stratum = next(each for each in evaluation.strata if each.domain == domain)
    nats, num_bytes = 0.0, 0
    for row in rows_of(stratum, subject.workspace):
        batch = collate([row])
        logits = subject.train_state.model(batch.input_ids, batch.boundaries)[0]
        scored = batch.loss_mask[0].bool()
        targets = batch.target_ids[0][scored].long()
        nats += float(F.cross_entropy(logits[scored], targets, reduction="sum"))
        num_bytes += int(subject.token_bytes[targets].sum())
    return nats / math.log(2) / num_bytes


def test_val_bpb_is_bits_over_bytes_of_scored_targets(world: Any) -> None:
    subject = evaluator(world)
    figures = {(each.phase, each.domain): each for each in subject.evaluate(0).figures}
    for domain in ("one", "two"):
        assert figures["syntax", domain].val_bpb == pytest.approx(plainly(subject, domain), 1e-5)
    mean = 0.75 * figures["syntax", "one"].val_bpb + 0.25 * figures["syntax", "two"].val_bpb
    assert figures["syntax", "*"].val_bpb == pytest.approx(mean)
    assert figures["syntax", "*"].low < figures["syntax", "*"].val_bpb < figures["syntax", "*"].high
    assert set(figures) == {(p, d) for p in ("syntax", "anchor") for d in ("one", "two", "*")}


def test_rows_that_two_evaluations_ask_for_are_computed_once(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = evaluator(world)
    syntax, anchor = subject.job.evaluations
    assert syntax.strata == anchor.strata
    computed: list[int] = []
    monkeypatch.setattr(module, "batch_nll", counting(computed))
    both = subject.evaluate(0).figures
    together = sum(computed)
    computed.clear()
    alone = evaluator(world, evaluations=(anchor,)).evaluate(0).figures
    assert sum(computed) == together > 0
    assert [each for each in both if each.phase == "anchor"] == [*alone]
    computed.clear()
    fewer = anchor.model_copy(
        update={
            "strata": tuple(
                stratum.model_copy(update={"measured": stratum.measured[:2]})
                for stratum in anchor.strata
            )
        }
    )
    evaluator(world, evaluations=(syntax, fewer)).evaluate(0)
    assert sum(computed) > together, "other rows are asked for, and those must be read"


def test_the_time_of_evaluations_is_kept_beside_what_they_found(tmp_path: Path) -> None:
    table = EVALUATED_SCHEMA.empty_table()
    for step, seconds in ((0, 1.5), (4, 2.25), (8, 4.0)):
        write(tmp_path, step, table, seconds=seconds)
    assert seconds_of(tmp_path) == 7.75
    keep_only(tmp_path, {0, 4})
    assert seconds_of(tmp_path) == 3.75, "evaluations behind the checkpoint are made again"
    found = read(tmp_path, 4)
    assert found is not None
    assert found.equals(table)
    assert seconds_of(tmp_path / "none") == 0


def counting(computed: list[int]) -> Any:
    """A pass that notes the positions of each batch."""
    plain = module.batch_nll

    def nll(model: Decoder, batch: Batch) -> torch.Tensor:
        computed.append(batch.positions)
        return plain(model, batch)

    return nll


def test_an_evaluation_changes_neither_model_nor_base(world: Any) -> None:
    subject = evaluator(world, rope_base=77.0)
    before = {name: value.clone() for name, value in subject.train_state.model.state_dict().items()}
    first = subject.evaluate(0).figures
    assert subject.train_state.model.rope_base == 77.0
    assert all(
        torch.equal(before[name], value)
        for name, value in subject.train_state.model.state_dict().items()
    )
    assert subject.evaluate(0).figures == first


def test_the_rows_that_a_job_names_are_read_and_no_others(world: Any) -> None:
    stratum = world.job().evaluations[0].strata[1]
    some = stratum.model_copy(update={"measured": (9, 12, 14)})
    rows = list(rows_of(some, world.store.root))
    assert [row.pack_id[-2:] for row in rows] == ["09", "12", "14"]
    gone = stratum.model_copy(update={"measured": (3, 16)})
    with pytest.raises(SchemaError, match="row 16"):
        list(rows_of(gone, world.store.root))


def test_a_figure_says_how_many_documents_and_lineages_it_is_of(world: Any) -> None:
    found = {figure.domain: figure for figure in evaluator(world).evaluate(0).figures}
    counted = [(found[name].documents, found[name].lineages) for name in ("one", "two", "*")]
    assert counted == [(16, 4), (16, 4), (32, 8)]
    assert all(figure.is_sure for figure in found.values())


def sums(nats: Any, num_bytes: Any, *, lineages: Sequence[str] | None = None) -> DocumentSums:
    """Sums of documents that are numbered, each a lineage of its own unless `lineages` says other."""
    ids = tuple(f"{each:032x}" for each in range(len(nats)))
    sizes = np.asarray(num_bytes, dtype=np.int64)
    return DocumentSums(
        document_ids=ids,
        lineages=tuple(lineages or ids),
        nats=np.asarray(nats, dtype=np.float64),
        num_bytes=sizes,
        tokens=sizes,
    )


def test_documents_of_the_same_loss_have_no_spread() -> None:
    many = sums(np.full(50, 1.0), np.full(50, 2))
    assert interval([many], [1.0]) == pytest.approx((0.5 / math.log(2),) * 2)


def test_an_interval_narrows_with_lineages() -> None:
    def width(documents: int) -> float:
        generator = np.random.default_rng(0)
        drawn = sums(generator.exponential(1.0, documents), np.ones(documents))
        low, high = interval([drawn], [1.0])
        assert low < drawn.bits_per_byte < high
        return high - low

    assert width(1600) < width(100) / 2


def test_versions_of_a_file_are_one_lineage_of_the_interval() -> None:
    """Each file thrice tells as little as each file once."""
    generator = np.random.default_rng(2)
    nats, sizes = generator.exponential(20.0, 9), generator.integers(5, 60, 9)
    once = sums(nats, sizes)
    names = [name for name in once.document_ids for _ in range(3)]
    thrice = sums(np.repeat(nats, 3), np.repeat(sizes, 3), lineages=names)
    assert interval([thrice], [1.0]) == pytest.approx(interval([once], [1.0]))


def test_an_interval_of_equal_files_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 7.0])
    low, high = interval([sums(values * math.log(2) * 10, np.full(4, 10))], [1.0])
    half = 3.18245 * values.std(ddof=1) / math.sqrt(4)
    assert (low, high) == pytest.approx((3.5 - half, 3.5 + half), rel=1e-3)


def test_a_stratum_of_one_lineage_widens_the_interval() -> None:
    """70 % of the weight is two files; their spread is taken from the files of the others, not as none."""
    generator = np.random.default_rng(4)
    rest = sums(generator.normal(20.0, 2.0, 19), np.full(19, 20))
    alone = [sums([nats], [20]) for nats in (21.0, 23.0)]
    low, high = interval([rest, *alone], [0.3, 0.35, 0.35])
    narrow = interval([rest], [1.0])
    assert high - low > 0.35 * math.sqrt(19) * (narrow[1] - narrow[0])


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lineages=st.lists(st.integers(3, 12), min_size=1, max_size=3),
    weights=st.lists(st.floats(0.2, 1.0), min_size=3, max_size=3),
    few=st.integers(1, 2),
    share=st.floats(0.0, 0.25),
)
def test_an_interval_covers_the_truth_nine_times_in_ten(
    seed: int, lineages: list[int], weights: list[float], few: int, share: float
) -> None:
    """Lineages of unlike documents, unequal weights, and a stratum of one or two documents."""
    generator = np.random.default_rng(seed)
    shares = np.array(weights[: len(lineages)])
    shares *= (1 - share) / shares.sum()
    middles = generator.uniform(1.0, 2.0, len(lineages) + 1)
    covered = 0
    for _ in range(DRAWS):
        strata = [
            _random_documents(generator, *each, versions=3)
            for each in zip(lineages, middles, strict=False)
        ]
        strata.append(_random_documents(generator, few, middles[-1], versions=1))
        low, high = interval(strata, [*shares, share])
        covered += low <= float(np.dot([*shares, share], middles)) <= high
    assert covered >= 0.88 * DRAWS, "nominal is 0.95, with a standard error of 0.013"


DRAWS = 300


def _random_documents(
    generator: np.random.Generator, lineages: int, middle: float, *, versions: int
) -> DocumentSums:
    """Documents of some lineages: a lineage's bits per byte vary around `middle`, its versions around it."""
    of_lineage = generator.normal(middle, 0.2, lineages)
    figures = np.repeat(of_lineage, versions) + generator.normal(0, 0.05, lineages * versions)
    sizes = generator.integers(300, 900, lineages * versions)
    names = [f"{middle} {at // versions}" for at in range(lineages * versions)]
    return sums(figures * sizes * math.log(2), sizes, lineages=names)


def test_a_stop_is_heeded_between_batches(world: Any) -> None:
    subject = evaluator(world)
    stopping = Evaluator(
        train_state=subject.train_state,
        job=subject.job,
        workspace=subject.workspace,
        token_bytes=subject.token_bytes,
        stop=lambda: True,
    )
    with pytest.raises(Cancelled):
        stopping.evaluate(0)


def test_documents_sum_to_the_reported_bits_per_byte_exactly(world: Any, tmp_path: Path) -> None:
    subject = evaluator(world)
    found = subject.evaluate(0)
    write(tmp_path, 0, found.documents)
    read_back = read(tmp_path, 0)
    assert read_back is not None
    assert read_back.equals(found.documents)
    assert read_back.schema.equals(EVALUATED_SCHEMA)
    assert pq.read_metadata(tmp_path / "evaluations/step=0/documents.parquet").num_row_groups == 1
    documents = read_back.to_pylist()
    assert all(each["lineage"] == lineage_of(each["document_id"]) for each in documents)
    places = [tuple(each.values())[:8] for each in documents]
    assert places == sorted(set(places))
    for figure in found.figures:
        mine = [
            each
            for each in documents
            if (each["set"], each["phase"]) == (figure.set, figure.phase)
            and figure.domain in ("*", each["domain"])
        ]
        assert sum(each["tokens"] for each in mine) == figure.scored_tokens
        assert sum(each["bytes"] for each in mine) == figure.scored_bytes
        if figure.domain != "*":
            nats = math.fsum(each["nats"] for each in mine)
            assert nats / math.log(2) / figure.scored_bytes == figure.val_bpb


def test_a_pair_has_the_interval_of_the_differences() -> None:
    """Each lineage is left out of both sides at once, one by one."""
    generator = np.random.default_rng(5)
    hard, sizes = generator.exponential(20.0, 12), generator.integers(5, 60, 12)
    before, after = (sums(hard + generator.normal(gain, 0.5, 12), sizes) for gain in (2, 1))
    found = paired_change([Pair(before=before, after=after, weight=3.0)])
    assert found.change == pytest.approx(after.bits_per_byte - before.bits_per_byte)
    without = []
    for at in range(12):
        ids = {*after.document_ids} - {after.document_ids[at]}
        without.append(after.select(ids).bits_per_byte - before.select(ids).bits_per_byte)
    spread = math.sqrt(11 / 12 * sum((each - found.change) ** 2 for each in without))
    half = 2.20099 * spread
    assert (found.low, found.high) == pytest.approx(
        (found.change - half, found.change + half), rel=1e-3
    )
    assert (found.count.documents, found.count.lineages) == (12, 12)


def test_a_change_of_a_few_heavy_documents_has_no_verdict() -> None:
    """19 light documents of 10 lineages don't carry 2 heavy ones over the threshold."""
    light = sums(np.full(19, 20.0), np.full(19, 20), lineages=[f"{at % 10}" for at in range(19)])
    better = sums(light.nats - 1, light.num_bytes, lineages=light.lineages)
    heavy = [
        Pair(
            before=sums([20.0], [20], lineages=[name]),
            after=sums([19.0], [20], lineages=[name]),
            weight=0.35,
        )
        for name in ("a", "b")
    ]
    found = paired_change([Pair(before=light, after=better, weight=0.3), *heavy])
    assert found.count.lineages == 12
    assert found.high < 0
    assert found.verdict == ""
    (alone,) = [paired_change([Pair(before=light, after=better, weight=0.3)])]
    assert alone.verdict == "lower"


def test_a_pair_is_surer_than_two_intervals_that_touch() -> None:
    generator = np.random.default_rng(1)
    hard = generator.exponential(50.0, 60)
    before, after = sums(hard + 1.0, np.full(60, 40)), sums(hard, np.full(60, 40))
    low, high = interval([after], [1.0])
    assert low < before.bits_per_byte < high, "alone they can't be told apart"
    found = paired_change([Pair(before=before, after=after, weight=1.0)])
    assert found.verdict == "lower"
    assert found.low <= found.change <= found.high < 0
    again = paired_change([Pair(before=after, after=after, weight=1.0)])
    assert (again.change, again.low, again.high, again.verdict) == (0, 0, 0, "")


def test_evaluations_behind_the_checkpoint_are_removed(world: Any, tmp_path: Path) -> None:
    table = EVALUATED_SCHEMA.empty_table()
    for step in (0, 4, 8):
        write(tmp_path, step, table)
    (tmp_path / "evaluations" / "step=half").mkdir()
    keep_only(tmp_path, {0, 4})
    left = sorted(each.name for each in (tmp_path / "evaluations").iterdir())
    assert left == ["step=0", "step=4"]
    assert read(tmp_path, 8) is None
