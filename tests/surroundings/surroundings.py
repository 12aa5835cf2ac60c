"""The parts of the rows of matrix.py: surroundings for a program, and running it in them.

A surrounding is a function that changes a Start before the program begins, and registers clean-up
in an ExitStack. Skip has the reason why this machine cannot make one.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
MS_BIND = 4096
LIBC = ctypes.CDLL(None, use_errno=True)


class Skip(Exception):
    pass


@dataclasses.dataclass
class Start:
    """How a program will be started. `before` runs in its process, in order."""
    command: list
    folder: pathlib.Path  # its working directory, empty
    environment: dict
    confine: str = ""  # the program that takes privilege and system calls away
    before: list = dataclasses.field(default_factory=list)
    stderr: object = None  # a descriptor instead of the pipe that is read
    undo: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)


@dataclasses.dataclass
class End:
    """How the program ended."""
    command: list
    status: int  # as in subprocess: negative for a signal; None: the watchdog killed it
    stdout: str
    stderr: str
    seconds: float
    last_words: float  # seconds from its last line of output to its end
    folder: pathlib.Path
    left: list  # processes that did not end by themselves


def needs_root():
    if os.geteuid() != 0:
        raise Skip("only root may do this")


def as_root(_):
    needs_root()


def system(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise Skip(f"{what}: {os.strerror(error)}")


# ---- surroundings

def limit(kind, soft, hard=None):
    def surround(start):
        start.before.append(lambda: resource.setrlimit(kind,
                                                       (soft, soft if hard is None else hard)))
    return surround


def environment(**variables):
    return lambda start: start.environment.update(variables)


def wrapped(*command):
    """Another program starts the program."""
    def surround(start):
        if shutil.which(command[0]) is None:
            raise Skip(f"no {command[0]}")
        start.command[:0] = command
    return surround


def under_gdb(start):
    wrapped("gdb", "-nx", "-batch", "-return-child-result", "-iex", "set debuginfod enabled off",
            "-ex", "handle SIGSEGV nostop noprint pass", "-ex", "run", "--args")(start)


def may_be_debugged(start):
    if shutil.which("gdb") is None:
        raise Skip("no gdb")
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.geteuid() != 0 and scope.exists() and scope.read_text().strip() != "0":
        raise Skip("Yama allows no debugger to attach to a process that it has not started")


def confined(*options):
    """tests/confine starts the program: as an unprivileged user, or without some system calls."""
    def surround(start):
        build = str(pathlib.Path(start.command[0]).parent.parent)
        start.folder.chmod(0o777)
        start.command[:0] = [start.confine, "--reach", build, *options]
    return surround


def as_user(start):
    """A user id without other processes."""
    needs_root()
    user = 60000 + secrets.randbelow(5000)
    start.folder.chmod(0o777)
    start.before.append(lambda: (os.setgroups([]), os.setresgid(user, user, user),
                                 os.setresuid(user, user, user)))


def as_pid_1(start):
    needs_root()
    if subprocess.run(["unshare", "--pid", "--fork", "true"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("no PID namespace can be made")
    wrapped("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")(start)


def as_subreaper(start):
    start.before.append(lambda: LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def closed(*descriptors):
    def surround(start):
        for descriptor in descriptors:
            start.before.append(lambda descriptor=descriptor: os.close(descriptor))
    return surround


def full_stderr(start):
    """A full pipe that no process reads."""
    reader, writer = os.pipe()
    start.undo.callback(os.close, reader)
    start.undo.callback(os.close, writer)
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    start.stderr = writer


def on_cpus(*cpus):
    def surround(start):
        if not set(cpus) <= os.sched_getaffinity(0):
            raise Skip(f"this process may not run on CPU {max(cpus)}")
        start.before.append(lambda: os.sched_setaffinity(0, cpus))
    return surround


def own_cgroup(controller):
    """The folder of this process's group of a version 1 controller, for new groups."""
    needs_root()
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            folder = pathlib.Path("/sys/fs/cgroup") / controller / path.lstrip("/")
            if (folder / "tasks").exists():
                return folder
            folder = pathlib.Path("/sys/fs/cgroup") / controller
            if (folder / "tasks").exists():
                return folder
    raise Skip(f"no cgroup controller {controller} of version 1 at /sys/fs/cgroup/{controller}")


def in_cgroup(controller, **settings):
    """A new version 1 group. Settings are written in order; in a name, __ stands for the dot."""
    def surround(start):
        group = own_cgroup(controller) / f"wherry-test-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError as error:
            raise Skip(f"no new group in {group.parent}: {error.strerror}") from None
        start.undo.callback(remove_group, group)
        for name, value in settings.items():
            (group / name.replace("__", ".")).write_text(str(value))
        start.before.append(lambda: (group / "tasks").write_text(str(os.getpid())))
    return surround


def remove_group(group):
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)


def in_chroot(*mounts):
    """A new root with the program, its libraries, and bind mounts of `mounts`."""
    def surround(start):
        needs_root()
        root = pathlib.Path(tempfile.mkdtemp(prefix="wherry-root-"))
        start.undo.callback(shutil.rmtree, root)
        listing = subprocess.run(["ldd", start.command[0]], capture_output=True, text=True,
                                 check=True).stdout
        libraries = re.findall(r"(?:=> )?(/\S+) \(0x", listing)
        # Without /proc the loader cannot find the program's folder.
        start.environment["LD_LIBRARY_PATH"] = ":".join({str(pathlib.Path(library).parent)
                                                         for library in libraries})
        for path in [start.command[0], *libraries]:
            inside = root / path.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inside)
        for mount in mounts:
            (root / mount.lstrip("/")).mkdir(parents=True)
            system(LIBC.mount(mount.encode(), str(root / mount.lstrip("/")).encode(), None, MS_BIND,
                              None), f"bind {mount}")
            start.undo.callback(LIBC.umount2, str(root / mount.lstrip("/")).encode(), 2)
        start.before += [lambda: os.chroot(root), lambda: os.chdir("/")]
    return surround


def with_cores(start):
    """Core dumps of any size, into the working directory."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern or not pattern.startswith("core"):
        raise Skip(f"core dumps go to '{pattern}'")
    limit(resource.RLIMIT_CORE, resource.RLIM_INFINITY)(start)


# ---- running

def children_of(pid):
    with contextlib.suppress(OSError):
        return [int(child)
                for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def end_leftovers(seconds):
    """Reaps orphans, which come to this process because it is a subreaper. Kills and returns
    processes that did not end in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if pid != 0:
            continue
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    left = []
    for pid in children_of(os.getpid()):
        with contextlib.suppress(OSError):
            left.append(f"{pid} {pathlib.Path(f'/proc/{pid}/comm').read_text().strip()}")
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return left


@contextlib.contextmanager
def run(command, surroundings, variables, seconds, confine=""):
    """Runs a command in surroundings and returns its End. A watchdog kills it after `seconds`."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wherry-")))
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("WHERRY_", "CUDA_"))}
        start = Start(list(command), folder, inherited | variables, os.path.abspath(confine),
                      undo=stack)
        for surround in surroundings:
            surround(start)

        def prepare():
            for step in start.before:
                step()

        stderr = start.stderr
        if stderr is None:
            stderr = stack.enter_context(tempfile.TemporaryFile())
        begin = last = time.monotonic()
        program = subprocess.Popen(start.command, cwd=folder, env=start.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                   preexec_fn=prepare)
        said = b""
        os.set_blocking(program.stdout.fileno(), False)
        status = None
        while time.monotonic() < begin + seconds:
            ended = program.poll() is not None
            part = program.stdout.read()
            if part:
                said += part
                last = time.monotonic()
            if ended:
                status = program.returncode
                break
            time.sleep(0.002)
        over = time.monotonic()
        if status is None:
            program.kill()
            program.wait()
        left = end_leftovers(10)
        said += program.stdout.read() or b""
        program.stdout.close()
        words = ""
        if start.stderr is None:
            stderr.seek(0)
            words = stderr.read().decode(errors="replace")
        yield End(command, status, said.decode(errors="replace"), words, over - begin, over - last,
                  folder, left)
