import json

from curriculum.corpus.skips import MAX_EXAMPLES, Skips


def test_only_what_cannot_be_read_is_lost():
    skips = Skips(read=6)
    for reason in ("encoding", "missing", "vendored", "versions", "too_large"):
        skips.add(reason, path="a.cc", commit="c")
    assert skips.lost_share == 2 / 8


def test_examples_are_few_and_counts_are_whole():
    skips = Skips()
    for number in range(100):
        skips.add("binary", path=f"{number}.cc", commit="c")
    report = skips.report().dump()
    assert report["skipped"] == {"binary": 100}
    assert report["examples"] == {"binary": [f"c:{number}.cc" for number in range(MAX_EXAMPLES)]}
    assert json.loads(json.dumps(report)) == report


def test_nothing_read_and_nothing_skipped_is_nothing_lost():
    assert Skips().lost_share == 0
