"""The lease of a process: keys that it uses, which gc keeps while the process lives."""

from pydantic import AwareDatetime

from schemas.job import RunState


class Lease(RunState):
    """leases/<uuid>.json: its owner, and the keys that the owner found or makes."""

    begun: AwareDatetime
    heartbeat: AwareDatetime
    """UTC, by the owner's clock: file times may change when a workspace is copied."""
    keys: tuple[str, ...]
