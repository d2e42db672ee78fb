"""Workers that solve: they are replaced where they hang, and watched."""

from pathlib import Path

import pytest

from acknap.base.errors import HarnessError
from acknap.knapsack.session import WORKER, Session, SolverWorker
from acknap.torches.worker import WorkerError


def test_worker_that_hangs_or_dies_is_replaced(
    toy_python: Path, tmp_path: Path
) -> None:
    knapsack = next(tmp_path.rglob("knapsack.py"))
    knapsack.write_text(
        "import os, time\n"
        "def dp_knapsack(*_): os._exit(3)\n"
        "def greedy_knapsack(*_): time.sleep(60)\n"
        "def ilp_knapsack(*_): return 0.0, [], []\n"
    )
    worker = SolverWorker("stock", toy_python, (WORKER,))
    try:
        with pytest.raises(WorkerError, match="Died: exit status 3"):
            worker.solve("dp", [1.0], 1, 1.0)
        with pytest.raises(WorkerError, match="Timeout: no answer in 1 s"):
            worker.ask(
                {
                    "op": "solve",
                    "solver": "greedy",
                    "budgets": [1.0],
                    "number": 1,
                    "limit": 1,
                },
                1,
            )
        assert worker.solve("ilp", [1.0], 1, 1.0)["answers"] == [[[], 0.0, None, None]]
    finally:
        worker.close()


def test_environment_that_changes_is_refused(session: Session, tmp_path: Path) -> None:
    session.worker("stock")
    next(tmp_path.rglob("knapsack.py")).write_text("def dp_knapsack(*_): pass\n")
    with pytest.raises(HarnessError, match="the stock environment changed"):
        session.fresh("stock")
