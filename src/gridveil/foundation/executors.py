"""Executors: who does long work. This process, a pool of processes, or the workers of Dask.

What they are given must be public: nothing here protects it on its way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain, repeat
from multiprocessing import get_context, parent_process
from threading import Thread
from time import monotonic, process_time, sleep
from typing import Any, NamedTuple, Self

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.version import __version__

MOST_WORKERS = 1000
AHEAD = 2  # pieces in hand for each worker: the next one lies ready
SHORT_S = 10.0  # of this processor's time: shorter work is not worth the start of a pool [s]
# How long a Dask scheduler is waited for: at first, and until it comes back [s].
PATIENCE_S, LATER_PATIENCE_S = 5.0, 60.0


class Called(NamedTuple):
    """An executor, and how many pieces it should have in hand."""

    executor: Executor
    width: Callable[[], int]


class Crew:
    """Workers, called when they are first needed, and again after they were lost."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Called]]) -> None:
        self._call, self._stack = opened, ExitStack()
        self._opened: Called | None = None

    @property
    def executor(self) -> Executor:
        """Who takes work."""
        return self._here().executor

    def width(self) -> int:
        """How many pieces to have in hand at once."""
        return self._here().width()

    def drop(self) -> None:
        """Let these workers go; the next piece calls others."""
        self._opened = None
        self._stack.close()

    def _here(self) -> Called:
        if self._opened is None:
            self._opened = self._stack.enter_context(self._call())
        return self._opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()


class _Here(Executor):
    """Does the work at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def here() -> Crew:
    """Work in this process."""
    return Crew(_in_this_process)


def later(crew: Crew, seconds: float = SHORT_S) -> Crew:
    """Work in this process, and call the crew for what is left after so many
    seconds of processor time.
    """
    end: float | None = None

    @contextmanager
    def opened() -> Iterator[Called]:
        nonlocal end
        end = until = end or process_time() + seconds
        with crew:
            yield Called(_Later(crew, until), lambda: 1 if process_time() < until else crew.width())

    return Crew(opened)


class _Later(Executor):
    """Does the work at once until a time, and then has a crew do it."""

    def __init__(self, crew: Crew, end: float) -> None:
        self._crew, self._end, self._here = crew, end, _Here()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        who = self._here if process_time() < self._end else self._crew.executor
        return who.submit(fn, *args, **kwargs)


def using(executor: Executor, workers: int) -> Crew:
    """Work on any executor of so many workers; it stays its owner's, and is not ended."""
    return Crew(lambda: nullcontext(Called(executor, lambda: AHEAD * workers)))


def local(workers: int | None = None) -> Crew:
    """Work in so many processes of this machine; default: one for each core."""
    count = workers or os.cpu_count() or 1
    return here() if count == 1 else Crew(lambda: _pool(count))


def dask(scheduler: str | None = None, workers: int | None = None) -> Crew:
    """Work on a Dask cluster; without an address, on one of this machine that ends with the work.

    A scheduler that is gone is waited for, a minute at most.
    """
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise OptionError(
            "Dask is not installed.",
            expected="gridveil with the extra ensemble",
            remedy="pip install 'gridveil[ensemble]'",
        ) from None
    patience = chain([PATIENCE_S], repeat(LATER_PATIENCE_S))
    return Crew(lambda: _cluster(scheduler, workers or os.cpu_count() or 1, next(patience)))


@contextmanager
def _in_this_process() -> Iterator[Called]:
    yield Called(_Here(), lambda: 1)


@contextmanager
def _pool(workers: int) -> Iterator[Called]:
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_follow)
    # All processes before any work: Python overlooks one that starts while another dies, and then
    # waits for its end for ever.
    for _ in range(workers):
        pool.submit(_nothing)
    try:
        yield Called(pool, lambda: AHEAD * workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _nothing() -> None:
    pass


def _follow() -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that hands the work out; end
    where that one was killed.
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _cluster(scheduler: str | None, workers: int, patience_s: float) -> Iterator[Called]:
    from distributed import Client, LocalCluster

    for name in ("distributed", "distributed.client"):  # a lost scheduler is told in our words
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        where: Any = scheduler or stack.enter_context(
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # there is always one: on this machine alone
            )
        )
        client = stack.enter_context(_client(Client, where, patience_s))
        executor = client.get_executor(pure=False)
        yield Called(executor, lambda: AHEAD * max(1, sum(client.nthreads().values())))


def _client(make: Any, where: Any, patience_s: float) -> Any:
    """Reach a scheduler, waiting for one that is being started again."""
    end = monotonic() + patience_s
    while True:
        try:
            return make(where, timeout=5, set_as_default=False)
        except (OSError, TimeoutError):
            if monotonic() < end:
                sleep(1.0)
                continue
        except (ValueError, TypeError):
            pass
        raise OptionError(
            f"No Dask scheduler answers at {where}.",
            expected="an address such as tcp://127.0.0.1:8786",
            outcome="What was finished before is kept.",
            remedy="Start `dask scheduler` there, or name its address with --scheduler.",
        )


def check_worker(version: str) -> None:
    """Refuse work of another version of gridveil: results must not depend on who makes them."""
    if version != __version__:
        raise GridveilError(
            f"This worker has gridveil {__version__}, and the work is of {version}.",
            remedy="Install the same version on all workers.",
        )


def crew_of(
    engine: str = "local",
    scheduler: str | None = None,
    workers: int | None = None,
    *,
    short: bool = False,
    compute: str = "cpu",
) -> Crew:
    """The crew that options name.

    short : the work may be: where nothing is asked for, processes are called after some seconds.
    compute : where batches are computed; a GPU is used from this process.
    """
    if compute == "gpu":
        if engine != "local" or scheduler or workers is not None:
            raise OptionError(
                "--workers, --engine and --scheduler do not go with --compute gpu.",
                expected="one process, which uses the GPU",
                outcome="Nothing was computed.",
                remedy="Leave them out, or give --compute cpu.",
            )
        return here()
    if engine not in ("local", "dask"):
        raise OptionError(f"The engine {engine!r} is unknown.", expected="local or dask")
    if workers is not None and (scheduler or not 1 <= workers <= MOST_WORKERS):
        raise OptionError(
            f"--workers {workers} cannot be used.",
            expected=f"1 to {MOST_WORKERS} processes of this machine, without --scheduler",
        )
    if engine == "dask":
        return dask(scheduler, workers)
    if scheduler:
        raise OptionError("--scheduler is for --engine dask.", remedy="Give --engine dask as well.")
    return later(local()) if short and workers is None else local(workers)
