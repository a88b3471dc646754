"""WRITE: keep the lease of a segment while a model encodes it, so that only a dead worker's runs out."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.errors import LeaseLostError, StoreBusyError, StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.datatypes import LeasedSegment
    from scrubjay.store import SegmentStore

RENEWALS = 3  # in the time of one lease: two may be late


@contextmanager
def renewed(lease: LeasedSegment, segments: SegmentStore, *, lease_seconds: float) -> Iterator[None]:
    """Renew a lease from a thread of its own while the block runs."""
    done = threading.Event()
    keeper = threading.Thread(
        target=keep_lease, args=(lease, segments, lease_seconds, done), name="scrubjay-lease", daemon=True
    )
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()


def keep_lease(
    lease: LeasedSegment, segments: SegmentStore, lease_seconds: float, done: threading.Event
) -> None:
    """Renew until told to stop, or until there is nothing to keep: whoever writes the result then meets that error."""
    while not done.wait(lease_seconds / RENEWALS):
        try:
            segments.renew_lease(lease, now=datetime.now(UTC), lease_seconds=lease_seconds)
        except StoreBusyError:
            continue  # the next renewal is soon enough
        except (LeaseLostError, StoreClosedError):
            return
