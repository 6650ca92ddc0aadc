"""A folder on any file system that ``pyarrow.fs`` knows, with whole-file atomic writes.

Local files are written beside their target, synced and renamed; object stores show a file only when its upload is
complete, so a plain write is atomic there. Readers skip names that begin with ``.`` or ``_``.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, InputError, OutputError

_NUM_THREADS = 16


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a storage's root; ``path`` is relative to it."""

    path: str
    size_bytes: int
    modified_s: float

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Storage:
    """Files below ``root`` (a local path or a URI such as ``s3a://bucket/folder``); pickles as its root."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        self._fs, self._base = _resolve(self.root)
        self.is_local = self._fs.type_name == "local"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Storage, (self.root,))

    def uri(self, path: str) -> str:
        """What Spark calls the file or folder; local paths are absolute."""
        return f"{self._base if self.is_local else self.root}/{path}".rstrip("/")

    def child(self, path: str) -> Storage:
        return Storage(self.uri(path))

    def make_folder(self, path: str = "") -> None:
        with _writing(self.uri(path)):
            self._fs.create_dir(self._full(path), recursive=True)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a whole file at once; it replaces an older one of that name.

        A local file survives a power cut only if ``durable``; a killed process loses neither.

        Raises:
            OutputError: the folder is not writable or the disk is full; nothing is left behind.
        """
        with _writing(self.uri(path)):
            if self.is_local:
                _write_local(Path(self._full(path)), data, durable)
            else:
                with self._fs.open_output_stream(self._full(path)) as stream:
                    stream.write(data)

    def open_output(self, path: str) -> Any:
        """A stream for a file that only counts once somebody commits it (see :mod:`pipeline.writers`)."""
        with _writing(self.uri(path)):
            self._fs.create_dir(self._full(path).rpartition("/")[0], recursive=True)
            return self._fs.open_output_stream(self._full(path), compression=None)

    def read(self, path: str) -> bytes | None:
        """A file's bytes, None where there is none."""
        try:
            with self._fs.open_input_stream(self._full(path), compression=None) as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open_input(self, path: str = "", *, start: int = 0) -> Any:
        """A stream of a file from byte ``start``; compressed files are unpacked (and read from their start).

        Raises:
            InputError: the file cannot be opened.
        """
        try:
            if start:
                stream = self._fs.open_input_file(self._full(path))
                stream.seek(start)
                return stream
            return self._fs.open_input_stream(self._full(path))
        except OSError as error:
            raise InputError(f"cannot read {self.uri(path)}: {error.strerror or error}") from None

    def open_input_file(self, path: str) -> Any:
        """A file that can be read from any place, as Parquet readers need it.

        Raises:
            InputError: the file cannot be opened.
        """
        try:
            return self._fs.open_input_file(self._full(path))
        except OSError as error:
            raise InputError(f"cannot read {self.uri(path)}: {error.strerror or error}") from None

    def exists(self, path: str = "") -> bool:
        from pyarrow.fs import FileType

        return bool(self._fs.get_file_info(self._full(path)).type != FileType.NotFound)

    def is_file(self) -> bool:
        """Whether a file lies where the folder should be."""
        from pyarrow.fs import FileType

        return bool(self._fs.get_file_info(self._base).type == FileType.File)

    def files(self, folder: str = "", *, recursive: bool = False) -> list[StoredFile]:
        """Visible files below a folder, sorted by path; none where the folder is missing."""
        return [f for f in self._all_files(folder, recursive=recursive) if not f.name.startswith((".", "_"))]

    def is_empty(self) -> bool:
        """No file and no folder at the root, hidden ones included."""
        return not self.names()

    def names(self) -> list[str]:
        """Files and folders at the root, hidden ones included, sorted."""
        from pyarrow.fs import FileSelector

        with _writing(self.root):
            found = self._fs.get_file_info(FileSelector(self._base, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all in it; one that is missing is fine."""
        from pyarrow.fs import FileType

        with _writing(self.uri(path)):
            if self.is_local and _unlinked(self._full(path)):
                return
            kind = self._fs.get_file_info(self._full(path)).type
            if kind == FileType.Directory:
                self._fs.delete_dir(self._full(path))
            elif kind == FileType.File:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.delete_file(self._full(path))

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete many at a time: an object store takes its time for each."""
        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            list(pool.map(self.delete, paths))

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """:meth:`move` many (source, target) at a time."""
        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            list(pool.map(lambda pair: self.move(*pair), moves))

    def move(self, source: str, target: str) -> None:
        """Rename within this storage; a file or folder at ``target`` must not exist."""
        with _writing(self.uri(target)):
            self._fs.create_dir(self._full(target).rpartition("/")[0], recursive=True)
            self._fs.move(self._full(source), self._full(target))

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}".rstrip("/") or "/"

    def _all_files(self, folder: str, *, recursive: bool) -> list[StoredFile]:
        from pyarrow.fs import FileSelector, FileType

        if self._fs.get_file_info(self._full(folder)).type == FileType.File:
            return []
        selector = FileSelector(self._full(folder), recursive=recursive, allow_not_found=True)
        found = []
        for info in self._fs.get_file_info(selector):
            if info.type == FileType.File:
                relative = info.path[len(self._base) :].lstrip("/")
                found.append(StoredFile(relative, int(info.size or 0), float((info.mtime_ns or 0) / 1e9)))
        return sorted(found, key=lambda file: file.path)


def _resolve(root: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in root and not root.startswith("file:"):
        return LocalFileSystem(), str(Path(root).expanduser().absolute())
    address = root.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
    if address.startswith("file:"):
        return LocalFileSystem(), "/" + address[len("file:") :].lstrip("/")
    if address.startswith("s3://"):  # a file of less than 5 MB is then one request instead of three
        address += f"{'&' if '?' in address else '?'}allow_delayed_open=true"
    try:
        filesystem, base = FileSystem.from_uri(address)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(f"{root!r} is not a usable address: {error}") from None
    return filesystem, str(base).rstrip("/")


class _writing:
    """Turns what the file system raises into an OutputError that names the file."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, OutputError):
            reason = error.strerror or str(error)
            raise OutputError(
                f"cannot write {self._place}: {reason}",
                hint="check free space and permissions, then run the same command again: it resumes",
            ) from None


def _unlinked(path: str) -> bool:
    """Whether a local file is gone; a folder is left to others."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write_local(target: Path, data: bytes, durable: bool) -> None:
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
