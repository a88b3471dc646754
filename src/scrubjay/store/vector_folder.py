"""The folders beside a memory's file for an index of its vectors: where it lies, where it is made, where it goes."""

from __future__ import annotations

import errno
import shutil
from enum import StrEnum
from pathlib import Path

from scrubjay.errors import StoreReadOnlyError

MET_ANOTHER = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)  # another process removes or writes it too


class Stage(StrEnum):
    """What a folder holds, as its name ends."""

    WHOLE = ""
    NEW = "-new"  # yet to be finished
    GONE = "-gone"  # moved here at once, so that no part of an index is taken for the whole


def vectors_folder(path: str, stage: Stage = Stage.WHOLE) -> Path:
    return Path(f"{path}.vectors{stage}")


def remove_vectors(path: str, *stages: Stage) -> None:
    """Delete folders, all of them if none is named; what they held is made of the memory's rows anew when asked for."""
    gone = vectors_folder(path, Stage.GONE)
    for folder in [vectors_folder(path, stage) for stage in stages or tuple(Stage)]:
        while folder.exists() or gone.exists():
            remove_step(folder, gone)


def remove_step(folder: Path, gone: Path) -> None:
    """Move a folder out of the way, or delete what was moved; raise StoreReadOnlyError where that can't be."""
    try:
        if gone.exists():
            shutil.rmtree(gone)
        else:
            folder.rename(gone)
    except OSError as error:
        if error.errno not in MET_ANOTHER:
            raise StoreReadOnlyError(f"{folder} can't be removed ({error}): delete it") from error
