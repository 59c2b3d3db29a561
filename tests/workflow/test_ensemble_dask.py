"""Ensembles on a real Dask cluster: whatever dies, the same table, and nothing twice."""

import json
import signal
import socket
import subprocess
import sys
import time

import pytest

from cli_helpers import SCRIPT, gridveil_process
from gridveil.workflow.ensemble.table import decode

pytestmark = pytest.mark.slow
SPEC = {
    "case": "star5",
    "epsilon": ["1/2", "1", "2"],
    "mechanism": "items",
    "fit": "two-stage",
    "seeds": 16,
    "batch": 2,
}


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self.folder = f"tcp://127.0.0.1:{self.port}", folder
        self.processes = []

    def start(self, what, *options):
        program = [sys.executable, "-m", f"distributed.cli.dask_{what}", *map(str, options)]
        with (self.folder / f"{what}-{len(self.processes)}.log").open("w") as log:
            started = subprocess.Popen(
                [*program, "--host", "127.0.0.1", "--no-dashboard"], stdout=log, stderr=log
            )
        self.processes.append(started)
        return started

    def scheduler(self):
        return self.start("scheduler", "--port", self.port)

    def worker(self):
        folder = ("--local-directory", self.folder / "workers")
        return self.start("worker", self.address, "--nthreads=1", "--no-nanny", *folder)

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.end()


def shards_in(out):
    return set((out / "shards").glob("*.parquet"))


def wait_for(run, out, count):
    end = time.monotonic() + 240
    while len(shards_in(out)) < count:
        assert run.poll() is None, "it ended too early"
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_worker_a_scheduler_and_a_file_are_lost_and_the_table_is_the_same(cluster, tmp_path):
    lines = [f"{key} = {json.dumps(value)}" for key, value in SPEC.items()]
    (tmp_path / "spec.toml").write_text("\n".join(lines))
    here = gridveil_process("ensemble", "spec.toml", "--out=here", "--workers=2", cwd=tmp_path)
    assert here.code == 0, here.err

    scheduler, first, _ = cluster.scheduler(), cluster.worker(), cluster.worker()
    command = ("ensemble", "spec.toml", "--out=out", "--engine=dask", "--scheduler")
    run = subprocess.Popen(
        [SCRIPT, *command, cluster.address],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # a run in the background ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    out = tmp_path / "out"
    try:
        wait_for(run, out, 3)
        first.send_signal(signal.SIGKILL)
        wait_for(run, out, 7)
        scheduler.send_signal(signal.SIGKILL)
        scheduler.wait()
        kept = {path: path.stat().st_mtime_ns for path in shards_in(out)}
        scheduler = cluster.scheduler()
        cluster.worker()
        wait_for(run, out, len(kept) + 3)
        run.send_signal(signal.SIGINT)  # and whoever asked for it
        _, err = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 130
    assert "Finished shards are kept in out" in err
    assert "Traceback" not in err
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items()), "made twice"

    whole = sorted(shards_in(out))
    whole[0].write_bytes(whole[0].read_bytes()[:100])
    before = {path: path.stat().st_mtime_ns for path in whole[1:]}
    again = gridveil_process(*command, cluster.address, "--json", cwd=tmp_path)
    assert again.code == 0, again.err
    told = json.loads(again.out)
    assert told["made"] == told["tasks"] - len(before)
    assert {path: path.stat().st_mtime_ns for path in before} == before, "made twice"
    assert shards_in(out) == {out / "shards" / p.name for p in shards_in(tmp_path / "here")}
    for name in ("ensemble.parquet", "summary.md", "error.png"):
        assert (out / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    rows = decode((out / "ensemble.parquet").read_bytes())
    assert len({(row["hash"], row["seed"]) for row in rows}) == len(rows) == 3 * 16 + 2 + 2


def test_a_cluster_of_this_machine_is_started_and_ended_with_the_work(tmp_path):
    (tmp_path / "spec.toml").write_text('case = "star5"\nepsilon = 1\nseeds = 4\nbatch = 2\n')
    for engine in ("local", "dask"):
        done = gridveil_process(
            *("ensemble", "spec.toml", "--workers=2", f"--engine={engine}", f"--out={engine}"),
            cwd=tmp_path,
        )
        assert done.code == 0, done.err
    tables = [(tmp_path / name / "ensemble.parquet").read_bytes() for name in ("local", "dask")]
    assert tables[0] == tables[1]
