"""Proof that nothing crosses a document boundary, forward and backward, for our model and for anyone's.

    report = leakcheck(build_model, vocab_size=97)      # build_model() -> module(ids_BT, boundaries) -> y_BTC
    report.passed, report.table()

Rows of many shapes stand in one batch; in each row one document is the witness. Everything outside the
witnesses is changed – other ids, embeddings × 50 – and what belongs to them must stay the same, bit by
bit. And the proof is proven itself: leaks are planted, and each must turn exactly its claims red.
"""

from curriculum.leakcheck.claims import leakcheck
from curriculum.leakcheck.decoders import check_decoder
from curriculum.leakcheck.subject import Build, Cut, doc_ids_of, layouts

__all__ = ["Build", "Cut", "check_decoder", "doc_ids_of", "layouts", "leakcheck"]
