"""The attempt at a run that would be resumed, and its last checkpoint."""

from pathlib import Path

from curriculum.pipeline.attempts import resumed_step
from curriculum.train.checkpoint import newest_step


def _checkpoint(attempt: Path, step: int) -> None:
    folder = attempt / "checkpoints" / f"step={step}"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


def test_progress_begins_at_the_checkpoint_that_is_resumed(tmp_path: Path) -> None:
    assert resumed_step(tmp_path) == 0
    for step in (9, 23):
        _checkpoint(tmp_path / "attempt=1", step)
    assert resumed_step(tmp_path) == 23
    assert newest_step(tmp_path / "attempt=1/checkpoints") == 23
    (tmp_path / "attempt=1/manifest.json").write_text("{}")
    assert resumed_step(tmp_path) == 0, "a finished attempt isn't resumed"
    _checkpoint(tmp_path / "attempt=2", 5)
    assert resumed_step(tmp_path) == 5
    assert newest_step(tmp_path / "attempt=3/checkpoints") == 0
