"""One server of several processes: they share the socket, the memories, and what is told of operations and counts."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from scrubjay.errors import ScrubJayError
from scrubjay.json_log import log_to_stderr
from scrubjay.server.crew import METRICS
from scrubjay.server.listening import AT_ONCE, Shared, listen_at
from scrubjay.server.opening import opened_application, serving_options

if TYPE_CHECKING:
    from fastapi import FastAPI

    from scrubjay.server.places import Serving

LOGGER = logging.getLogger("scrubjay.server")
SILENT_SECONDS = 30  # after which a process that doesn't answer is replaced
METRICS_PLACE = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes the application, in each of the processes."""

    serving: Serving

    def __call__(self) -> FastAPI:
        log_to_stderr(log_content=self.serving.settings.log_content)
        end_with_parent()
        opened = ExitStack()
        try:
            return opened.enter_context(opened_application(self.serving, on_end=opened.close))
        except ScrubJayError as error:
            LOGGER.error("not started", extra={"fields": {"message": str(error)}})  # noqa: TRY400 -- its frames say nothing more
            sys.exit(STARTUP_FAILURE)


def run_processes(serving: Serving, *, address: tuple[str, int], count: int) -> None:
    """Serve with so many processes until a signal; one that dies is replaced, and all end with this one."""
    with opened_application(serving):
        pass  # what would fail in each of them fails here, and says so once
    with TemporaryDirectory(prefix="scrubjay-serve-") as folder:
        shared = Path(folder)
        (shared / METRICS).mkdir()
        os.environ[METRICS_PLACE] = str(shared / METRICS)  # read when the processes import what counts
        config = uvicorn.Config(
            Maker(serving=replace(serving, shared=shared)),
            factory=True,
            host=address[0],
            port=address[1],
            workers=count,
            backlog=AT_ONCE,
            timeout_worker_healthcheck=SILENT_SECONDS,
            **serving_options(serving.settings),
        )
        with listen_at(*address) as listening:
            shown = f"[{address[0]}]" if ":" in address[0] else address[0]
            LOGGER.info("running on http://%s:%d (Ctrl-C ends it)", shown, listening.getsockname()[1])
            shared_socket: Any = Shared(listening=listening)  # becomes one in each process
            supervisor = Multiprocess(config, sockets=[shared_socket])
            supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        sys.exit(STARTUP_FAILURE)


def end_with_parent() -> None:
    """Stop this process, as a signal would, when the one that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=wait, name="scrubjay-parent", daemon=True).start()
