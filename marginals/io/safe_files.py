"""Write a file whole or not at all, and refuse a target that cannot be written."""

import contextlib
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import IO

Path = str | os.PathLike[str]

# A killed process leaves its partial file behind. Where the process cannot be looked up (another
# machine), a partial file that has not been written to for this many seconds counts as abandoned.
ABANDONED_SECONDS = 3600.0


class FileError(ValueError):
    """Raised for a file that is damaged, or comes from another program, kind or version."""


def check_target(path: Path, name: str = "`path`") -> str:
    """Return the real path of a file to write; raise `OSError` if it cannot be written.

    Args:
        path: The file, which need not exist. Symbolic links are followed.
        name: What the error calls it.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(
            f"Expected {name} to be a file; got the folder {target!r}. Name a file in it."
        )
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"Expected {name} to be in a folder that exists; got {target!r}. "
            f"Create {folder!r} first."
        )
    writable = target if _is_device(target) else folder
    if not os.access(writable, os.W_OK):
        raise PermissionError(
            f"Expected {name} to be in a folder that you may write to; got {target!r}. "
            f"Change the permissions of {writable!r}, or choose another folder."
        )
    return target


@contextlib.contextmanager
def replacing(path: Path, name: str = "`path`") -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` when the context ends without an error.

    Whenever the process is killed, `path` is either what it was before or the whole new file.
    Pipes and devices are written to directly.

    Args:
        path: The file to replace. Symbolic links are followed.
        name: What errors call it.
    """
    target = check_target(path, name)
    if _is_device(target):
        with open(target, "wb") as device:
            yield device
        return
    folder, base = os.path.split(target)
    partial = os.path.join(
        folder, f"{_partial_start(base)}{_host()}-{os.getpid()}-{secrets.token_hex(8)}.partial"
    )
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # there is no old file, or its mode is not ours to set
            shutil.copymode(target, partial)
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise
    _sync_folder(folder)
    _remove_abandoned(folder, base)


def _is_device(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target)


def _sync_folder(folder: str) -> None:
    """Make the renaming survive a power failure, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _partial_start(base: str) -> str:
    return f".{base[:48]}."  # cut so that the whole name stays legal


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _remove_abandoned(folder: str, base: str) -> None:
    """Remove the partial files of dead processes; another process may be writing its own."""
    form = re.compile(
        re.escape(_partial_start(base)) + r"([0-9a-f]{8})-(\d{1,9})-[0-9a-f]{16}\.partial"
    )
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = form.fullmatch(entry.name)
            if found and _is_abandoned(entry, found[1], int(found[2])):
                with contextlib.suppress(OSError):
                    os.remove(entry.path)


def _is_abandoned(entry: os.DirEntry[str], host: str, process: int) -> bool:
    if host == _host() and not _is_running(process):
        return True
    try:
        return time.time() - entry.stat().st_mtime > ABANDONED_SECONDS
    except OSError:  # removed in the meantime
        return False


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a test but a signal
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
