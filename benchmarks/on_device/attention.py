"""Attention backends: which backends work on this device, and their speed with and without masks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.on_device.lines import ResultLine
from benchmarks.on_device.masking import RowKind, build_on_rows, measure
from benchmarks.on_device.models import layers
from benchmarks.on_device.schedule import Measurement
from benchmarks.on_device.setting import Setting
from schemas.job import Backend

SECTION = "backends"


def probes(setting: Setting) -> Iterator[Measurement]:
    """Yield one measurement on short rows for every backend."""
    for backend in setting.backends:
        yield _measurement(setting, backend, setting.probe_length, wave=0)


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield a measurement for every backend and row length, except the length of the probes.

    If a backend doesn't support a length, the result gives the reason.
    """
    for length in setting.lengths:
        if length != setting.probe_length:
            for backend in setting.backends:
                yield _measurement(setting, backend, length, wave=2)


def keep_working_backends(setting: Setting, lines: Sequence[ResultLine]) -> Setting:
    """Return `setting` with the backends that have figures in `lines`, in the order of preference.

    If no backend has figures, keep all backends: every later result then gives its reason.
    """
    found = {line.subject for line in lines if line.section == SECTION and line.figures}
    backends = tuple(backend for backend in setting.backends if backend in found)
    return replace(setting, backends=backends or setting.backends)


def _measurement(setting: Setting, backend: Backend, length: int, *, wave: int) -> Measurement:
    kind = RowKind(length=length, mean=setting.means[0])
    # The memory that math needs for the backward pass grows with T² per row and head.
    positions = length if backend == "math" else setting.positions
    own = replace(setting, backends=(backend,), positions=positions)
    subject = layers(setting, backend, "A")
    return Measurement(
        wave=wave,
        line=ResultLine(section=SECTION, subject=backend, row_length=length, documents=str(kind)),
        weight=1 + length / 16384,
        work=lambda share: measure(own, subject, kind, share, pads=False),
        build=lambda: build_on_rows(own, subject.spec, backend, kind),
    )
