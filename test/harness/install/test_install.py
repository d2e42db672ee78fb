"""install, uninstall, status: a toy torch that the real pip put into a real venv."""

import base64
import csv
import errno
import fcntl
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acknap.base import locks
from acknap.install import installed, pip_record
from acknap.series import tree
from acknap.upstream.targets import Target
from toy_upstream import CONFIG, NEW, SOLVER, Repository

INFO = "torch-1.0.0.dist-info"
TOUCHED = (f"{INFO}/RECORD", SOLVER, CONFIG, NEW)
DAMAGED_RECORD = (
    f"{INFO}: RECORD is not a list of files in UTF-8: install torch 1.0.0 again with "
    "pip (--ignore-installed)"
)
IMPORT = "import torch._functorch.config, torch._functorch.solver"

# Every operation that changes a file system raises one of these.
EVENTS = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}

_UNDISTURBED = 77

Snapshot = dict[str, tuple[str, int, int]]


@dataclass
class Toy:
    """The toy torch and the repository of its series."""

    repository: Repository
    prefix: Path

    @property
    def site(self) -> Path:
        (found,) = self.prefix.glob("lib/python*/site-packages")
        return found

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    def pip(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "pip", "--python", self.python, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, command: str) -> str:
        return self.repository.ok(command, "--python", self.python)

    def error(self, command: str) -> str:
        return self.repository.run(command, "--python", self.python).error

    def status(self) -> tuple[str, int]:
        result = self.repository.run("status", "--python", self.python)
        return result.out.split(":")[0], result.status

    def imports(self, *options: str) -> None:
        command = [self.python, "-I", *options, "-c", IMPORT]
        subprocess.run(command, check=True, cwd=self.prefix)

    def snapshot(self) -> Snapshot:
        """Content, mode and time of every file; folders too."""
        found = {}
        for path in self.site.rglob("*"):
            info = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            time = info.st_mtime_ns if path.is_file() else 0
            name = path.relative_to(self.site).as_posix()
            digest = hashlib.sha256(content).hexdigest()
            found[name] = (digest, info.st_mode, time)
        return found


@pytest.fixture
def toy(repository: Repository) -> Toy:
    """A pristine torch 1.0.0 and a series in which one file imports the other."""
    template = repository.root.parent.parent / "installed"
    made = Toy(repository, repository.root.parent / "environment")
    if not template.exists():
        make_series(repository)
        venv.create(made.prefix, with_pip=False)
        made.pip("install", "torch==1.0.0")
        made.imports()
        shutil.copytree(repository.root, template / "repository")
        shutil.copytree(made.prefix, template / "environment", symlinks=True)
        return made
    shutil.copytree(template / "repository", repository.root, dirs_exist_ok=True)
    shutil.copytree(template / "environment", made.prefix, symlinks=True)
    return made


def make_series(repository: Repository) -> None:
    tree = repository.add_series()
    use = "from torch._functorch.new import NEW"
    tree.git("checkout", "-q", "series")
    tree.replace(SOLVER, "len(list(items))", f"len([*items])\n\n\n{use}")
    tree.commit("Use the new file")
    tree.replace(
        CONFIG, "alpha = 1", "from torch._functorch.solver import NEW as alpha"
    )
    tree.commit("Configure it")
    tree.git("branch", "-q", "-D", "optional")
    path = repository.layout.patches / "targets.toml"
    old, new = "optional/0001-Change-a-default.patch", "0004-Configure-it.patch"
    path.write_text(path.read_text().replace(old, new))
    repository.ok("export", tree.path)


def expected_state(toy: Toy, before: Snapshot, after: Snapshot) -> tuple[str, int]:
    """What `status` has to say, from the contents alone."""
    now = {name: row[0] for name, row in toy.snapshot().items() if name in TOUCHED}
    if now == {name: row[0] for name, row in before.items() if name in TOUCHED}:
        return "pristine", 1
    if now == {name: row[0] for name, row in after.items() if name in TOUCHED}:
        return "patched", 0
    return "partly", 2


def run_disturbed(
    toy: Toy, command: str, step: int, disturb: Callable[[], None]
) -> int | None:
    """Run a command in a process of its own and disturb it before one operation.

    Args:
        step: Which of the operations that change something in the environment.

    Returns:
        Its exit status, negative for a signal; None if it has fewer operations.
    """
    if process := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return None if status == _UNDISTURBED else status
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if changes(toy.prefix, event, arguments):
            left -= 1
            if left == -1:
                disturb()

    try:
        sys.addaudithook(hook)
        status = toy.repository.run(command, "--python", toy.python).status
        os._exit(_UNDISTURBED if left >= 0 and not status else status)
    finally:
        os._exit(1)


def changes(prefix: Path, event: str, arguments: tuple[object, ...]) -> bool:
    """Whether an audit event announces a change of a file below `prefix`."""
    if event == "open":
        path, _, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        return bool(writes) and str(path).startswith(str(prefix))
    if event not in EVENTS:
        return False
    path, folder = Path(str(arguments[0])), arguments[-1]
    if not path.is_absolute() and isinstance(folder, int) and folder >= 0:
        path = Path(f"/proc/self/fd/{folder}").readlink() / path
    return path.is_relative_to(prefix)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def fill_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_to_write_next_and_how_to_see_it(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, write, see = toy.run("install").splitlines()
    assert "wheel --plugin" not in said
    assert "activation_memory_budget = 0.5" in write
    assert 'activation_memory_budget_solver = "exact"' in write
    assert 'TORCH_LOGS="torch._functorch.partitioners"' in see
    assert "TORCHINDUCTOR_CACHE_DIR" in see
    toy.run("uninstall")
    monkeypatch.setattr("acknap.install.install.PACKAGED", "v1")
    assert "`./scripts/harness wheel --plugin` writes" in toy.run("install")


def test_status_names_the_solver_in_force_by_default(toy: Toy) -> None:
    said = toy.repository.run("status", "--python", toy.python).out.splitlines()
    assert len(said) == 1
    (toy.site / CONFIG).write_text('activation_memory_budget_solver = "dp"\n')
    said = toy.repository.run("status", "--python", toy.python).out.splitlines()
    assert said[1:] == ["solver by default: dp"]


@pytest.fixture
def fast(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Many runs: what changes nothing is computed once, nothing waits for the disk."""
    torch = installed.find(str(toy.python))
    monkeypatch.setattr(installed, "find", lambda _: torch)
    cache: dict[str, dict[str, bytes]] = {}
    patched_files = tree.patched_files

    def once(target: Target, *rest: Any) -> dict[str, bytes]:
        if target.name not in cache:
            cache[target.name] = patched_files(target, *rest)
        return cache[target.name]

    monkeypatch.setattr(tree, "patched_files", once)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    toy.run("install")
    toy.run("uninstall")
    return toy


def test_life(toy: Toy) -> None:
    """Installed, imported, installed again, taken out: nothing is left."""
    before = toy.snapshot()
    assert toy.status() == ("pristine", 1)
    said = toy.run("install")
    assert f"patched: torch 1.0.0 in {toy.site}: v1.0.0 with series v1" in said
    assert toy.status() == ("patched", 0)
    assert "[*items]" in (toy.site / SOLVER).read_text()
    assert "solver import NEW" in (toy.site / CONFIG).read_text()
    assert (toy.site / NEW).stat().st_mode == (toy.site / SOLVER).stat().st_mode
    toy.imports()
    assert list((toy.site / NEW).parent.glob("__pycache__/new.*.pyc"))
    patched = toy.snapshot()
    assert "nothing to install: patched: " in toy.run("install")
    assert toy.snapshot() == patched
    assert toy.run("uninstall").startswith("pristine: torch 1.0.0 in ")
    assert toy.snapshot() == before
    assert toy.status() == ("pristine", 1)
    assert "nothing to uninstall" in toy.run("uninstall")
    assert toy.snapshot() == before


@pytest.mark.parametrize("again", ["install", "uninstall"])
@pytest.mark.parametrize("killed", ["install", "uninstall"])
def test_killed_before_any_operation(fast: Toy, killed: str, again: str) -> None:
    """Torch can be imported, status tells the truth, and either command mends it."""
    before = fast.snapshot()
    fast.run("install")
    after = fast.snapshot()
    seen = set()
    for step in range(1000):
        fast.run("uninstall" if killed == "install" else "install")
        if run_disturbed(fast, killed, step, kill) is None:
            break
        fast.imports("-B")
        state = fast.status()
        assert state == expected_state(fast, before, after), step
        seen.add(state[0])
        fast.run(again)
        if again == "install":
            assert expected_state(fast, before, after) == ("patched", 0), step
        else:
            assert fast.snapshot() == before, step
    assert step > 10
    assert seen == {"pristine", "partly", "patched"}


@pytest.mark.parametrize(
    ("disturb", "expected"),
    [(interrupt, 130), (fill_disk, 2)],
    ids=["SIGINT", "ENOSPC"],
)
def test_stopped_before_any_operation(
    fast: Toy, disturb: Callable[[], None], expected: int
) -> None:
    """What can still act takes its own work back."""
    before = fast.snapshot()
    for step in range(1000):
        status = run_disturbed(fast, "install", step, disturb)
        if status is None:
            break
        if status == 0:  # it goes without hard links
            fast.run("uninstall")
        else:
            assert status == expected
        assert fast.snapshot() == before, step
    assert step > 20


def test_record(toy: Toy) -> None:
    """It lists what is there, and pip removes all of it."""
    toy.run("install")
    rows = list(csv.reader((toy.site / INFO / "RECORD").open()))
    for path, digest, size in rows:
        content = (toy.site / path).read_bytes() if digest else b""
        found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
        assert not digest or digest == f"sha256={found.rstrip('=')}"
        assert not size or int(size) == len(content)
    paths = [path for path, _, _ in rows]
    assert len(paths) == len({*paths})
    files = {name for name in toy.snapshot() if (toy.site / name).is_file()}
    compiled = {name for name in files if name.endswith(".pyc")}
    assert files - {*paths} <= compiled
    toy.imports()
    assert "No broken requirements" in toy.pip("check")
    toy.pip("uninstall", "-y", "torch")
    assert list(toy.site.iterdir()) == []


@pytest.mark.parametrize("release", ["1.1.0", "1.0.0"])
def test_after_pip_replaced_torch(toy: Toy, release: str) -> None:
    toy.run("install")
    toy.imports()
    toy.pip("install", "--force-reinstall", f"torch=={release}")
    fresh = toy.snapshot()
    assert not (toy.site / "torch-acknap").exists()
    said = f"nothing to uninstall: pristine: torch {release} in {toy.site}: "
    assert said in toy.run("uninstall")
    assert toy.snapshot() == fresh
    assert toy.status() == ("pristine", 1)


def test_after_pip_wrote_over_torch(toy: Toy) -> None:
    """--ignore-installed leaves what is not of the new wheel."""
    before = toy.snapshot()
    toy.run("install")
    toy.pip("install", "--ignore-installed", "torch==1.0.0")
    assert toy.status() == ("partly", 2)
    toy.run("install")
    assert toy.status() == ("patched", 0)
    toy.run("uninstall")
    contents = {name: row[0] for name, row in before.items() if ".pyc" not in name}
    now = {name: row[0] for name, row in toy.snapshot().items() if ".pyc" not in name}
    assert now == contents


def test_edited_after_install(toy: Toy) -> None:
    toy.run("install")
    (toy.site / CONFIG).write_text("edited = 1\n")
    edited = toy.snapshot()
    assert toy.status() == ("unknown", 2)
    for command in ("install", "uninstall"):
        assert f"another program changed {CONFIG} since `install`" in toy.error(command)
    assert toy.snapshot() == edited


def test_newer_revision(toy: Toy) -> None:
    before = toy.snapshot()
    toy.run("install")
    toy.repository.write(f"torch_overlay/{NEW}", "NEW = 2\n")
    toy.repository.ok("export")
    assert toy.status() == ("patched", 0)
    assert "`install` puts revision" in toy.run("status")
    toy.run("install")
    assert (toy.site / NEW).read_text() == "NEW = 2\n"
    toy.run("uninstall")
    assert toy.snapshot() == before


def test_linked_environment_keeps_its_files(toy: Toy, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(toy.prefix, other, symlinks=True, copy_function=os.link)
    linked = Toy(toy.repository, other)
    before = toy.snapshot()
    linked.run("install")
    assert toy.snapshot() == before
    assert toy.status() == ("pristine", 1)
    linked.run("uninstall")
    assert linked.snapshot() == toy.snapshot() == before
    assert (other / "lib").exists()
    assert (linked.site / SOLVER).samefile(toy.site / SOLVER)


def test_two_at_once(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits until the first has ended."""
    (locked, tell), (told, end) = os.pipe(), os.pipe()
    if not os.fork():
        os.close(end)
        with (toy.site / INFO / "METADATA").open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(tell, b"1")
            os.read(told, 1)
        os._exit(0)
    os.read(locked, 1)
    said = []

    def say(message: str) -> None:
        said.append(message)
        os.close(end)  # now the first may end

    monkeypatch.setattr(locks, "say", say)
    toy.run("install")
    assert said == [f"Another process changes torch 1.0.0 in {toy.site}: waiting"]
    assert toy.status() == ("patched", 0)


def test_which_python(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The active environment's, else the one on PATH; folders will do."""
    monkeypatch.setenv("VIRTUAL_ENV", str(toy.prefix))
    assert str(toy.site) in toy.repository.ok("install")
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.setenv("PATH", f"{toy.prefix / 'bin'}:{os.environ['PATH']}")
    assert str(toy.site) in toy.repository.ok("uninstall")
    assert str(toy.site) in toy.repository.ok("install", "--python", toy.prefix)


def without_torch(toy: Toy) -> None:
    toy.pip("uninstall", "-y", "torch")


def edited(toy: Toy) -> None:
    (toy.site / CONFIG).write_text("edited = 1\n")


def with_new_file(toy: Toy) -> None:
    (toy.site / NEW).write_text("MINE = 1\n")


def of_another_commit(toy: Toy) -> None:
    (toy.site / "torch/version.py").write_text(f"git_version = '{'9' * 40}'\n")


def of_no_commit(toy: Toy) -> None:
    (toy.site / "torch/version.py").unlink()


def of_conda(toy: Toy) -> None:
    (toy.site / INFO / "INSTALLER").write_text("conda\n")


def without_record(toy: Toy) -> None:
    (toy.site / INFO / "RECORD").unlink()


def with_record_in_latin_1(toy: Toy) -> None:
    with (toy.site / INFO / "RECORD").open("ab") as file:
        file.write("caf\xe9.py,,\n".encode("latin-1"))


def with_one_endless_line(toy: Toy) -> None:
    (toy.site / INFO / "RECORD").write_text("x" * 200_000)


def linked_to_a_cache(toy: Toy) -> None:
    cache = toy.site.parent / "cache.py"
    (toy.site / SOLVER).rename(cache)
    (toy.site / SOLVER).symlink_to(cache)


def twice(toy: Toy) -> None:
    shutil.copytree(toy.site / INFO, toy.site / "torch-0.9.dist-info")


def in_a_source_tree(toy: Toy) -> None:
    source = toy.prefix / "source"
    shutil.copytree(toy.site / "torch", source / "torch")
    (source / "setup.py").touch()
    toy.pip("uninstall", "-y", "torch")
    (toy.site / "source.pth").write_text(f"{source}\n")


def with_damaged_journal(toy: Toy) -> None:
    toy.run("install")
    (toy.site / "torch-acknap/journal.json").write_text("{")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (without_torch, " has no torch: name another Python with --python"),
        (edited, f"{CONFIG} is not that of v1.0.0: install torch 1.0.0 again with pip"),
        (with_new_file, f"{NEW} is not of the release: remove it"),
        (
            of_another_commit,
            f"commit {'9' * 40}: the series is for the releases v1.0.0, ",
        ),
        (of_no_commit, "commit unknown: the series is for the releases"),
        (of_conda, "belongs to conda: make an environment with pip"),
        (without_record, "has no RECORD, so that no pip installed it"),
        (with_record_in_latin_1, DAMAGED_RECORD),
        (with_one_endless_line, DAMAGED_RECORD),
        (linked_to_a_cache, "is a link to "),
        (twice, " has 2 torch-*.dist-info beside the torch that "),
        (in_a_source_tree, "/source: run `./scripts/harness apply TARGET "),
        (with_damaged_journal, "torch-acknap/journal.json cannot be read: remove "),
    ],
)
def test_torch_that_is_left_alone(
    toy: Toy, break_it: Callable[[Toy], None], message: str
) -> None:
    break_it(toy)
    before = toy.snapshot()
    assert message in toy.error("install")
    said = toy.repository.run("status", "--python", toy.python)
    assert said.status in (1, 2)
    assert message in said.out + said.err
    assert "`install` puts " not in said.out
    toy.repository.run("uninstall", "--python", toy.python)
    assert toy.snapshot() == before


def test_again_after_a_damaged_record(toy: Toy) -> None:
    """What the message says helps."""
    with_record_in_latin_1(toy)
    toy.pip("install", "--ignore-installed", "torch==1.0.0")
    toy.run("install")
    (toy.site / INFO / "RECORD").unlink()
    assert "1.0.0 again with pip (--ignore-installed)" in toy.error("uninstall")


def with_edited_original(toy: Toy) -> None:
    (toy.site / "torch-acknap/originals" / SOLVER).write_text("")


def without_originals(toy: Toy) -> None:
    shutil.rmtree(toy.site / "torch-acknap/originals")


def without_folder(toy: Toy) -> None:
    shutil.rmtree(toy.site / "torch-acknap")


def without_originals_of_a_stopped_run(toy: Toy) -> None:
    (toy.site / "torch-acknap/originals" / CONFIG).replace(toy.site / CONFIG)
    without_originals(toy)


@pytest.mark.parametrize(
    ("remove", "state", "where"),
    [
        (
            with_edited_original,
            ("patched", 0),
            f"originals/{SOLVER} is missing or changed",
        ),
        (without_originals, ("patched", 0), f"originals/{INFO}/RECORD is missing"),
        (without_folder, ("patched", 0), "or its originals were removed"),
        (
            without_originals_of_a_stopped_run,
            ("partly", 2),
            f"originals/{INFO}/RECORD is missing",
        ),
    ],
)
def test_originals_are_gone(
    toy: Toy, remove: Callable[[Toy], None], state: tuple[str, int], where: str
) -> None:
    """Status says so, uninstall changes nothing, and what they advise helps."""
    toy.run("install")
    remove(toy)
    before = toy.snapshot()
    assert toy.status() == state
    said = toy.repository.run("status", "--python", toy.python).out
    refused = toy.error("uninstall")
    for text in (where, "to take it out, install ", " with pip (--force-reinstall)"):
        assert text in said
        assert text in refused
    assert "`uninstall` takes it out" not in said
    assert toy.snapshot() == before
    toy.pip("install", "--force-reinstall", "torch==1.0.0")
    assert toy.status() == ("pristine", 1)
    toy.run("install")


@pytest.mark.parametrize("older", [True, False], ids=["older", "stopped"])
def test_no_install_over_lost_originals(toy: Toy, older: bool) -> None:
    toy.run("install")
    if older:
        without_originals(toy)
        toy.repository.write(f"torch_overlay/{NEW}", "NEW = 2\n")
        toy.repository.ok("export")
    else:
        without_originals_of_a_stopped_run(toy)
    before = toy.snapshot()
    assert "RECORD is missing or changed: to take it out" in toy.error("install")
    assert toy.snapshot() == before


@pytest.fixture
def small_disk(fast: Toy) -> Iterator[Toy]:
    """The toy torch on a disk of its own of 64 pages."""
    if os.getuid():
        pytest.skip("mounts a file system, as root")
    site = fast.site
    copy = site.with_name("copy")
    shutil.copytree(site, copy)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", site]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this root may not mount")
    shutil.copytree(copy, site, dirs_exist_ok=True)
    yield fast
    subprocess.run(["umount", site], check=True)


def test_full_disk(small_disk: Toy) -> None:
    """However much room there is: torch is left as it was, and the message helps."""
    before = small_disk.snapshot()
    named = set()
    filler = small_disk.site / "filler"
    for pages in range(64):
        room = shutil.disk_usage(small_disk.site).free - pages * 4096
        filler.write_bytes(b"x" * room)
        result = small_disk.repository.run("install", "--python", small_disk.python)
        filler.unlink()
        if result.status == 0:
            break
        what, path, rest = result.error.removeprefix("error: ").split(": ")
        assert what == "No space left on device"
        assert rest == (
            "make room on that disk and run `install` again; "
            f"torch 1.0.0 in {small_disk.site} is pristine now"
        )
        named.add(Path(path).relative_to(small_disk.site / "torch-acknap").parts[0])
        assert small_disk.snapshot() == before
    assert named == {"staged", "journal.json.partial"}
    filler.write_bytes(b"x" * shutil.disk_usage(small_disk.site).free)
    small_disk.run("uninstall")
    filler.unlink()
    assert small_disk.snapshot() == before


def test_file_that_is_too_large(fast: Toy) -> None:
    """The system names no file when a write fails; the message does."""
    before = fast.snapshot()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        error = fast.error("install")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error == (
        f"error: File too large: {fast.site}/torch-acknap/staged/{INFO}/RECORD: put "
        f"that right and run `install` again; torch 1.0.0 in {fast.site} is pristine "
        "now"
    )
    assert fast.snapshot() == before


def test_disk_that_fails_in_uninstall(
    fast: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what is left, and the same command completes it."""
    before = fast.snapshot()
    fast.run("install")
    real, calls = Path.replace, 0

    def replace(path: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.EIO, "Input/output error", str(path), None, str(target))
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    said = fast.error("uninstall")
    assert said.startswith(f"error: Input/output error: {fast.site}/")
    assert said.endswith(
        "put that right and run `uninstall` again; "
        f"torch 1.0.0 in {fast.site} is partly now"
    )
    fast.run("uninstall")
    assert fast.snapshot() == before


def test_full_temporary_folder(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    before = toy.snapshot()
    monkeypatch.setattr("acknap.base.files._free", lambda _: 1_000_000)
    assert toy.error("install") == (
        f"error: patching needs about 0.1 GB, {tempfile.gettempdir()} has 0.0 GB free: "
        "make room or set TMPDIR to another disk"
    )
    assert toy.snapshot() == before


@pytest.mark.parametrize("python", ["nothing-of-this-name", "/bin/cat", "/dev/null"])
def test_no_python(repository: Repository, python: str) -> None:
    for command in ("install", "uninstall", "status"):
        error = repository.run(command, "--python", python).error
        assert python in error


def test_read_only(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests may run as root, who can write everywhere.
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != toy.site)
    before = toy.snapshot()
    assert toy.error("install") == (
        f"error: {toy.site} cannot be written to: run as its owner, or use a virtual "
        "environment of your own"
    )
    assert toy.snapshot() == before
    assert toy.status() == ("pristine", 1)
    said = toy.repository.run("status", "--python", toy.python).out
    assert f"; `install` refuses: {toy.site} cannot be written to: " in said


def test_rewritten_record_keeps_its_rows() -> None:
    old = b'a.py,sha256=x,1\r\n"b,c.py",,\r\nRECORD,,\r\n'
    new = pip_record.rewrite(old, {"b,c.py": b"", "d.py": b"1"}, ["e.pyc"])
    empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    one = "a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s"
    assert new.decode() == (
        f'a.py,sha256=x,1\r\n"b,c.py",sha256={empty},0\r\nRECORD,,\r\n'
        f"d.py,sha256={one},1\r\ne.pyc,,\r\n"
    )
