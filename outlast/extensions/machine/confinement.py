"""Starts a program that cannot leave a folder: Landlock and seccomp on Linux.

`ConfinedShell` runs this file as a script of its own, so that the restrictions never touch the
worker: it restricts itself and then becomes the program. Only the standard library is imported.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

LEAST_ABI: Final = 3
"""The first Landlock that guards `truncate`: Linux 6.2."""

CANNOT_CONFINE: Final = 125
"""The exit code where the restrictions cannot be set; the program is not started."""

SYSTEM_FOLDERS: Final = (
    "/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64",
    "/usr/libexec", "/usr/share",
)  # fmt: skip
"""Folders with programs, libraries and their data, which are readable."""

_LIBRARIES: Final = tuple(one for one in SYSTEM_FOLDERS if "lib" in one)
_DEVICES: Final = ("/dev/zero", "/dev/random", "/dev/urandom")

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_READ: Final = _READ_FILE | _READ_DIR
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_ALL: Final = (1 << 15) - 1
_IN_ROOT: Final = _ALL & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK)

_IOCTL_ABI, _SIGNALS_ABI = 5, 6

_DENIED: Final = {
    # No network, not even a socket in a file, such as that of Docker.
    "socket": (41, 198),
    "io_uring_setup": (425, 425),
    # Everything stays in one process group, which is killed as a whole.
    "setpgid": (109, 154),
    "setsid": (112, 157),
    # Landlock does not guard the metadata of files.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # Other processes of the same user, such as the worker.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    # What the kernel keeps for users.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmat": (30, 196),
    "mq_open": (240, 180),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
}
"""Denied system calls: their numbers on x86_64 and on aarch64."""

_SIGNALS: Final = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
"""Denied where Landlock does not keep signals inside."""

_UTIMENSAT: Final = (280, 88)
"""Without an effect for open files, as `touch` and `cp` call it; refused for paths."""

_PRLIMIT: Final = (302, 261)
"""Allowed for a process's own limits."""

_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the column of the tables above, and the kernel's name of the architecture."""

_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _CAPBSET_DROP, _SECCOMP_FILTER = 38, 22, 24, 2
_LAST_CAPABILITY: Final = 63
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _REFUSE, _IGNORE, _ALLOW = 0x80000000, 0x00050001, 0x00050000, 0x7FFF0000
_X32: Final = 0x40000000


class CannotConfineError(Exception):
    """This machine cannot confine programs; the text says what it lacks."""


def check() -> None:
    """Refuse a machine without Linux and Landlock, with a `CannotConfineError`."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise CannotConfineError(
            f"it needs Linux on x86_64 or aarch64, and this is {sys.platform} on "
            f"{platform.machine()}"
        )
    abi = _abi()
    if abi < LEAST_ABI:
        lacks = "Landlock is off" if abi < 1 else f"its Landlock has version {abi}"
        raise CannotConfineError(
            f"it needs Landlock of version {LEAST_ABI} (Linux 6.2), and in this kernel "
            f"({platform.release()}) {lacks}"
        )


def main(written: str, program: str, *arguments: str) -> NoReturn:
    """Restrict this process, and become the program.

    Args:
        written: JSON: `root`, the folder; `path`, the real file of the program; `execute`, the
            files that may be started; `read`, further folders to read; `limits`.
        program: the name that the program sees as its own.
        *arguments: the program's arguments.
    """
    try:
        settings = json.loads(written)
        _limit(**settings["limits"])
        _restrict(settings["root"], settings["execute"], settings["read"])
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
            signal.signal(ignored, signal.SIG_DFL)
        os.execve(settings["path"], [program, *arguments], dict(os.environ))  # noqa: S606  no shell is wanted
    except Exception as error:  # noqa: BLE001  an unrestricted program never starts
        sys.stderr.write(f"{program} was not started: {error}\n")
        sys.exit(CANNOT_CONFINE)


def _limit(*, seconds: int, memory_bytes: int, file_bytes: int, processes: int) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NPROC: _threads_of_this_user() + processes,
    }
    for kind, wanted in limits.items():
        _, most = resource.getrlimit(kind)
        bound = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (bound, bound))


def _threads_of_this_user() -> int:
    """Return what the limit of processes counts, for the user as a whole."""
    threads = 0
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if one.name.isdigit() and one.stat().st_uid == os.getuid():
                threads += len(list((one / "task").iterdir()))
    return threads


def _restrict(root: str, execute: list[str], read: list[str]) -> None:
    check()
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_LAST_CAPABILITY + 1):  # fails where there is none to drop
        libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    _done(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    abi = _abi()
    handled = _ALL | (_IOCTL_DEV if abi >= _IOCTL_ABI else 0)
    scoped = 3 if abi >= _SIGNALS_ABI else 0
    attributes = struct.pack("=QQQ", handled, 0, scoped)
    rules = _done(libc.syscall(_SYS_CREATE, attributes, len(attributes), 0), "Landlock")
    readable = [(one, _READ) for one in (*SYSTEM_FOLDERS, "/etc/ld.so.cache", *_DEVICES, *read)]
    startable = [(one, _EXECUTE | _READ) for one in (*_LIBRARIES, *execute)]
    writable = [("/dev/null", _READ_FILE | _WRITE_FILE), (root, _IN_ROOT)]
    for path, access in (*readable, *startable, *writable):
        if Path(path).exists():
            _allow(libc, rules, path, access)
    _done(libc.syscall(_SYS_RESTRICT, rules, 0), "Landlock")
    os.close(rules)
    program = _filter(denies_signals=not scoped)
    held = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    _done(libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, described, 0, 0), "seccomp")


def _allow(libc: Any, rules: int, path: str, access: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not Path(path).is_dir():
        access &= _OF_FILES
    rule = struct.pack("=Qi", access, folder)
    _done(libc.syscall(_SYS_ADD, rules, 1, rule, 0), f"Landlock for {path}")
    os.close(folder)


def _filter(*, denies_signals: bool) -> bytes:
    """Return a filter of system calls, as the kernel's virtual machine reads it."""
    column, architecture = _MACHINES[platform.machine()]
    table = {**_DENIED, **(_SIGNALS if denies_signals else {})}
    numbers = [one[column] for one in table.values() if one[column] is not None]
    lines = [
        (_LOAD, 0, 0, 4),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for number in numbers:
        lines += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    lines += [
        (_JUMP_IF_EQUAL, 0, 4, _UTIMENSAT[column]),
        (_LOAD, 0, 0, 24),  # the path
        (_JUMP_IF_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _IGNORE),
        (_RETURN, 0, 0, _REFUSE),
        (_JUMP_IF_EQUAL, 0, 3, _PRLIMIT[column]),
        (_LOAD, 0, 0, 16),  # the process
        (_JUMP_IF_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _abi() -> int:
    """Return the version of the kernel's Landlock; below 1 without."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(_SYS_CREATE, None, ctypes.c_size_t(0), 1)


def _done(result: int, what: str) -> int:
    if result < 0:
        raise CannotConfineError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
