"""Packed rows as their Parquet file has them, read past the loader: the measure that batches are held to."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curriculum import parquet

_COLUMNS = ["input_ids", "loss_mask", "doc_starts", "valid_token_count"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsFile:
    """All rows of a folder in the order of its file; R rows of T tokens."""

    ids: Tensor
    """int32 [R, T]."""
    mask: Tensor
    """bool [R, T]: the scored positions."""
    documents: Tensor
    """int64 [R, T]: the number of the document in its row; −1 in padding."""

    @staticmethod
    def read(folder: Path) -> "RowsFile":
        """Read part-00000.parquet with pyarrow alone."""
        table = parquet.read_table(folder / "part-00000.parquet", _COLUMNS)
        ids = np.stack([each.values.to_numpy() for each in table["input_ids"]])
        mask = np.stack([each.values.to_numpy() for each in table["loss_mask"]])
        documents = np.full(ids.shape, -1, dtype=np.int64)
        for row, valid in enumerate(table["valid_token_count"].to_numpy()):
            edges = np.append(table["doc_starts"][row].values.to_numpy(), valid)
            documents[row, :valid] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return RowsFile(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask.astype(bool)),
            documents=torch.from_numpy(documents),
        )
