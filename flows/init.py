"""`curriculum init`: a first diet and corpus, and what to do with them."""

import shlex
from pathlib import Path

from rich.text import Text

from curriculum.starter import write_starter
from flows.show import ACCENT, MUTED, out


def init(folder: Path) -> None:
    """Write the files and print the commands that go on from there.

    Raises:
        CurriculumError: if a file is there already.
    """
    diet, corpus = (shlex.quote(str(each)) for each in write_starter(folder))
    out.print(
        Text(f"{diet} and {corpus} are yours to edit; they use the sample corpus until then.")
    )
    for command, meaning in (
        (f"curriculum supply {corpus} --phases phases.demo", "what there is to train on"),
        (f"curriculum diet check {diet}", "what the diet asks of it"),
        (f"curriculum build {diet} --explain", "what would be built"),
        (f"curriculum run {diet}", "build, mix and train"),
    ):
        out.print(Text(command, ACCENT), Text(f" # {meaning}", MUTED), sep=" ", soft_wrap=True)
