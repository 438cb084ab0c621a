"""Proof that documents packed into one row never influence each other, for our model and for external ones.

    report = leakcheck(build_model, vocab_size=97)      # build_model() -> module(ids_BT, boundaries) -> y_BTC
    report.passed, report.table()

The proof packs the same documents in several ways and trains a model on each packing. The losses of the
documents, the gradients and the weights must not depend on the packing.
"""

from curriculum.leakcheck.decoders import check_decoder
from curriculum.leakcheck.external_models import leakcheck
from curriculum.leakcheck.subject import doc_ids_of, layouts

__all__ = ["check_decoder", "doc_ids_of", "layouts", "leakcheck"]
