"""Training of external models by a plain loop of AdamW steps, without our trainer."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.leakcheck.recorder import by_segment
from curriculum.leakcheck.subject import Feed, Subject, spread_constant_weights
from curriculum.train.batch import Batch

CLIP, RATE = 1.0, 1e-3


class PlainSteps:
    """Copy of a model in training mode, trained by AdamW on the mean cross-entropy of scored targets.

    Outputs that are as wide as the vocabulary count as logits. Narrower outputs are multiplied by the
    embedding matrix to get logits. Dropout is disabled.
    """

    def __init__(self, subject: Subject, feed: Feed) -> None:
        place = [*subject.model.modules()].index(subject.embedding)
        self.subject, self.feed = subject, feed
        self.model = spread_constant_weights(copy.deepcopy(subject.model)).train()
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                # In training mode, attention also reads the dropout rate of its module.
                module.p = 0.0
        embedding = [*self.model.modules()][place]
        assert isinstance(embedding, nn.Embedding), "a copy has the modules of its original"
        self.embedding = embedding
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)

    def step(self, batches: Sequence[Batch]) -> tuple[list[list[float]], dict[str, Tensor]]:
        """Accumulate the gradients of all batches, clip them and update the weights once."""
        count = max(sum(int(batch.loss_mask.sum()) for batch in batches), 1)
        nll = [
            by_segment(batch, self._backward(batch.to(self.subject.device), count))
            for batch in batches
        ]
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        gradients = {
            name: weight.grad.detach().clone()
            for name, weight in self.model.named_parameters()
            if weight.grad is not None
        }
        self.optimizer.step()
        self.optimizer.zero_grad()
        return nll, gradients

    def _backward(self, batch: Batch, count: int) -> Tensor:
        """Return the losses nll [N] of a batch's targets, and add the batch to the gradients.

        `count` is the number of targets in the whole step.
        """
        output_BTC = self.feed(self.model, batch.input_ids, batch.boundaries)
        x_NC = output_BTC.reshape(*batch.input_ids.shape, -1)[batch.loss_mask.bool()]
        wide = torch.promote_types(x_NC.dtype, torch.float32)
        x_NC = x_NC.to(wide)
        if x_NC.shape[-1] < self.embedding.num_embeddings:
            x_NC = F.linear(x_NC, self.embedding.weight.to(wide))
        targets_N = batch.target_ids[batch.loss_mask.bool()].long()
        nll_N = F.cross_entropy(x_NC, targets_N, reduction="none")
        (nll_N.sum() / count).backward()  # type: ignore[no-untyped-call]
        return nll_N.detach()

    def weights(self) -> dict[str, Tensor]:
        """Return an empty mapping: weights are compared only in float64, and these may be large."""
        return {}
