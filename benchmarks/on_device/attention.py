"""Attention backends: which of them this device has, and what each costs masked and unmasked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.on_device.lines import ResultLine
from benchmarks.on_device.masking import Rows, built_rows, measured
from benchmarks.on_device.models import layers
from benchmarks.on_device.schedule import Measurement
from benchmarks.on_device.setting import Setting
from schemas.job import Backend

SECTION = "backends"


def probes(setting: Setting) -> Iterator[Measurement]:
    """Every backend once, on short rows."""
    for backend in setting.backends:
        yield _measurement(setting, backend, setting.probe, wave=0)


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Every backend on all other lengths; one that refuses a length gives the reason."""
    for length in (each for each in setting.lengths if each != setting.probe):
        for backend in setting.backends:
            yield _measurement(setting, backend, length, wave=2)


def working(setting: Setting, lines: Sequence[ResultLine]) -> Setting:
    """The setting with the backends that gave figures, in the order of preference.

    Where none did, all stay, and every line gives its reason.
    """
    found = {line.subject for line in lines if line.section == SECTION and line.figures}
    backends = tuple(each for each in setting.backends if each in found)
    return replace(setting, backends=backends or setting.backends)


def _measurement(setting: Setting, backend: Backend, length: int, *, wave: int) -> Measurement:
    kind = Rows(length=length, mean=setting.means[0])
    # What math keeps for backward grows with T² for each row and head.
    positions = length if backend == "math" else setting.positions
    own = replace(setting, backends=(backend,), positions=positions)
    subject = layers(setting, backend, "A")
    return Measurement(
        wave=wave,
        line=ResultLine(section=SECTION, subject=backend, row_length=length, documents=str(kind)),
        weight=1 + length / 16384,
        work=lambda share: measured(own, subject, kind, share, pads=False),
        build=lambda: built_rows(own, subject.spec, backend, kind),
    )
