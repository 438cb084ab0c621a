from curriculum.inspection.copy_warnings import copy_warnings
from schemas.reports import CopyClusterReport, SelectionReport


def test_a_large_cluster_is_named_with_the_pair_that_joins_it():
    cluster = CopyClusterReport(
        lineages=60, share=0.25, first="a:one.h", second="b:two.h", similarity=0.71
    )
    (warning,) = copy_warnings(SelectionReport(copy_clusters=(cluster,)))
    assert all(word in warning for word in ("60", "25.0%", "a:one.h", "b:two.h", "71%"))
    assert not [*copy_warnings(SelectionReport())]
