"""Planted leaks tried against the two claims of the step that trains."""

import torch

from curriculum.leakcheck.injected.site import InjectedLeak, Needs
from curriculum.leakcheck.job_sizes import Sizes, muted_layouts, step_layouts
from curriculum.leakcheck.prove_step import CPU, drawn_rows, subject_of_step
from curriculum.leakcheck.step import STEPS, Setting
from curriculum.leakcheck.step_claims import step_findings
from curriculum.leakcheck.subject import one_thread
from schemas.job import EngramSpec, MambaSpec, ModelSpec
from schemas.leak import InjectedLeakReport


def try_leak(leak: InjectedLeak) -> InjectedLeakReport:
    """Plant a leak into the step under the settings that it needs; `red` are the claims that failed.

    A claim holds where the leaking code never ran, whatever failed then.

    Raises:
        KeyError: where what it replaces is gone.
    """
    with leak.injected() as site:
        red = red_claims(leak.needs)
    return InjectedLeakReport(
        leak=leak.words,
        subject=f"step {leak.needs.blocks}",
        backend=leak.needs.backend if "A" in leak.needs.blocks else "",
        dtype="float32",
        expected=tuple(sorted(leak.red)),
        red=red if site.runs else (),
    )


@one_thread()
def red_claims(needs: Needs) -> tuple[str, ...]:
    """The claims about a step under these settings that fail."""
    model = _model(needs)
    setting = Setting(
        model=model,
        backend=needs.backend,
        recompute=needs.recompute,
        dtype=torch.float32,
        device=CPU,
        row_length=needs.row_length,
    )
    sizes = Sizes.of(model, needs.row_length)
    subject = subject_of_step(
        setting,
        drawn_rows(model, needs.row_length, step_layouts(sizes)),
        drawn_rows(model, needs.row_length, muted_layouts(sizes) * STEPS),
    )
    findings = step_findings(subject)
    return tuple(sorted(each.claim for each in findings if not each.passed))


def _model(needs: Needs) -> ModelSpec:
    return ModelSpec(
        name="planted",
        vocab_size=needs.vocab_size,
        blocks=needs.blocks,
        width=16,
        heads=1,
        kv_heads=1,
        mlp_width=24,
        streams=needs.streams,
        mamba=MambaSpec(state=8, head_width=8, expand=1, chunk=needs.chunk),
        engram=EngramSpec(orders=(2, 3), heads=2, slots=53, slot_width=8),
        structure=needs.structure,
    )
