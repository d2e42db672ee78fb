"""Make the harness's virtual environment if it is not there, then run the package.

Standard library only: this file runs before anything is installed.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("ACKNAP_BUILD") or ROOT / "build").absolute()
VENV = BUILD / "harness-venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "harness.txt"
STAMP = VENV / "complete"


def fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def wanted() -> str:
    """What a complete environment was made from: the interpreter and the pins."""
    major, minor = sys.version_info[:2]
    return f"# Python {major}.{minor}\n{REQUIREMENTS.read_text()}"


def is_complete() -> bool:
    try:
        return PYTHON.exists() and STAMP.read_text() == wanted()
    except OSError:
        return False


def make(lock: int) -> None:
    """Make the environment; the stamp comes last, so an interrupted run is redone.

    pip holds the lock too: if we are killed, the next run waits until it has ended.
    """
    try:
        import ensurepip  # noqa: F401  (Debian ships venv without it)
        import venv
    except ImportError:
        fail(
            f"{sys.executable} has no venv module: install it (Debian, Ubuntu: "
            "apt-get install python3-venv)"
        )
    print(f"First use: making {VENV} (about 20 s)", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)
    venv.EnvBuilder(clear=True, with_pip=True).create(VENV)
    log = BUILD / "harness-venv.log"
    command: list[str | Path] = [PYTHON, "-m", "pip", "install", "--no-deps"]
    command += ["-r", REQUIREMENTS]
    with log.open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=output, pass_fds=(lock,))
    if done.returncode:
        said = log.read_text()
        errors = [line for line in said.splitlines() if line.startswith("ERROR")]
        reason = errors[-1] if errors else f"exit status {done.returncode}"
        if "Retrying (Retry(" in said:
            reason = "the package index does not answer: check the network"
        fail(f"pip could not install {REQUIREMENTS.name}: {reason} (log: {log})")
    STAMP.write_text(wanted())


def wait_for(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = f"Another process makes {VENV} (about 20 s): waiting"
        print(text, file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def main() -> None:
    if not is_complete():
        BUILD.mkdir(parents=True, exist_ok=True)
        with (BUILD / "harness-venv.lock").open("w") as lock:
            wait_for(lock)
            if not is_complete():
                make(lock.fileno())
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    environment.pop("PYTHONHOME", None)
    os.execve(PYTHON, [str(PYTHON), "-m", "acknap", *sys.argv[1:]], environment)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted; run the command again to continue", file=sys.stderr)
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"cannot make {VENV}: {error}")
