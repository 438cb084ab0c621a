"""Section of a dataset card about training, with example code that runs in the card's folder."""

from dataclasses import dataclass

from curriculum.interop.row_order import Ordered
from curriculum.tokens.codec import Tokenizer

TOGETHER = 8
"""Number of examples per optimizer step if no plan says the number of rows."""
_HEADING = "## Training"
_APART = """\
Documents of a row are kept apart by `position_ids` alone, and only if the model gets no `attention_mask` and
`use_cache=False`. With a cache, or with a mask such as a tokenizer's collator adds, models of transformers
let documents read those before them. Most recurrent layers of transformers (Mamba-2, Qwen3-Next …) let
documents read one another whatever they get. `curriculum leakcheck package.module:builder` examines a model.
"""
_PACKED = """\
`labels` has the token at its own position, as models of transformers want it, and -100 where it isn't scored:
in padding, at the first token of each document, and where the objective says so. `position_ids` restart at
each document. `seq_lengths` are the lengths of a row's documents and, last, of its padding.
"""
_UNPACKED = """\
`labels` has the token at its own position, as models of transformers want it, and -100 where it isn't scored.
The collators below lay the examples of a batch end to end and write `position_ids` that restart at each.
"""
_MODEL = """\
from pathlib import Path

from datasets import load_dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

rows = load_dataset(str(Path.cwd()), split="{split}")
tokenizer = AutoTokenizer.from_pretrained(".")
config = AutoConfig.for_model(  # a small model, to try it; or load one that was trained with this tokenizer
    "llama",
    vocab_size={vocab_size},
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = AutoModelForCausalLM.from_config(config)
"""
_ARGUMENTS = """\
    train_sampling_strategy="sequential",  # {order}
    per_device_train_batch_size={batch},
    gradient_accumulation_steps={accumulated},
    num_train_epochs=1,
"""
_TRAINER = """\
from transformers import {imported}

arguments = TrainingArguments(
    output_dir="trained",
    use_cache=False,
{arguments})
trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator={made})
trainer.train()
"""
_TRL = """\
import torch
from trl import SFTConfig, SFTTrainer

arguments = SFTConfig(
    output_dir="trained-by-trl",
    padding_free=True,
    max_length=None,
    bf16=torch.cuda.is_available(),
{arguments})
trainer = SFTTrainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
_TORCH = """\
import torch
from torch.utils.data import DataLoader

columns = ["input_ids", "labels", "position_ids"]
batches = DataLoader(rows.with_format("torch", columns=columns), batch_size={batch})
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for batch in batches:
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def split_of(ordered: Ordered) -> str:
    """Return the split of the rows; the rows of a mixture belong to split train."""
    return ordered.artefact.manifest.labels.get("split", "train")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingUse:
    """Properties of exported data on which the example code depends."""

    split: str
    vocab_size: int
    steps_rows: int | None
    """Number of rows per optimizer step according to the plan; None without a plan."""
    is_uniform: bool
    """True if all rows have the same length, so that several rows form one tensor."""

    @staticmethod
    def of(ordered: Ordered, tokenizer: Tokenizer, rows: int) -> "TrainingUse":
        """Return the properties of an export of `rows` rows."""
        return TrainingUse(
            split=split_of(ordered),
            vocab_size=tokenizer.vocab_size,
            steps_rows=max(1, rows // ordered.steps) if ordered.steps else None,
            is_uniform=len(ordered.row_lengths) == 1,
        )

    def packed(self) -> str:
        """Return the section for an export of packed rows."""
        together = self.steps_rows or TOGETHER
        order = "the order of the plan" if self.steps_rows else "the order of the files"
        arguments = _ARGUMENTS.format(order=order, batch=1, accumulated=together)
        trainer = _TRAINER.format(
            imported="Trainer, TrainingArguments, default_data_collator",
            made="default_data_collator",
            arguments=arguments,
        )
        batch = together if self.is_uniform else 1
        lines = (
            ("Trainer of transformers", trainer),
            ("TRL", _TRL.format(arguments=arguments)),
            ("Plain torch", _TORCH.format(batch=batch)),
        )
        return self._section(_PACKED, lines)

    def unpacked(self) -> str:
        """Return the section for an export of single documents; the trainer's collator makes position_ids."""
        arguments = _ARGUMENTS.format(order="the order of the rows", batch=TOGETHER, accumulated=1)
        trainer = _TRAINER.format(
            imported="DataCollatorWithFlattening, Trainer, TrainingArguments",
            made="DataCollatorWithFlattening()",
            arguments=arguments,
        )
        lines = (
            ("Trainer of transformers", trainer),
            ("TRL", _TRL.format(arguments=arguments)),
        )
        return self._section(_UNPACKED, lines)

    def _section(self, columns: str, lines: tuple[tuple[str, str], ...]) -> str:
        model = _MODEL.format(split=self.split, vocab_size=self.vocab_size)
        blocks = [f"In this folder:\n\n```python\n{model}```\n"]
        blocks += [f"### {name}\n\n```python\n{code}```\n" for name, code in lines]
        return "\n".join([f"{_HEADING}\n", columns, _APART, *blocks]).rstrip()
