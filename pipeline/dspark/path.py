"""Incremental JSON path of an output in any layout: which value, or which glue between values, is being written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.dspark.memory import Memory, Node

_QUOTE, _ESCAPE = 0x22, 0x5C
_SPACES = frozenset(b" \n\r\t")
_STRUCTURE = frozenset(b" \n\r\t,:{}[]")
_MAX_TRIED = 3
_INSIDE = re.compile(rb'[^"\\]+')


class Segment(NamedTuple):
    """A finished stretch of output: glue (structure and keys up to the next scalar) or a scalar value."""

    is_glue: bool
    node: Node
    text: bytes
    following: Node | None


class PathTracker:
    """Follows output bytes; between calls `is_glue`, `node` and `prefix` say where the output stands.

    In glue, `node` is the scalar before it (the root at the start); in a value it is the value's own node.
    A scalar includes its quotes. A number ends where the glue after it starts.
    """

    __slots__ = (
        "_escaped",
        "_expect_key",
        "_key",
        "_memory",
        "_pending",
        "_stack",
        "done",
        "is_glue",
        "node",
        "prefix",
    )

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.is_glue = True
        self.node = memory.root
        self.prefix = bytearray()
        self.done = False
        self._pending: Node = memory.root
        self._stack: list[tuple[Node, bool]] = []
        self._expect_key = False
        self._key: bytearray | None = None
        self._escaped = False

    def clone(self) -> PathTracker:
        """An independent copy at the same place."""
        other = PathTracker.__new__(PathTracker)
        for name in ("_memory", "is_glue", "node", "done", "_pending", "_expect_key", "_escaped"):
            setattr(other, name, getattr(self, name))
        other.prefix = bytearray(self.prefix)
        other._stack = list(self._stack)
        other._key = None if self._key is None else bytearray(self._key)
        return other

    def feed(self, data: bytes) -> Iterator[Segment]:
        """Take output bytes; yields every segment that they finish, at the moment it is finished."""
        at, size = 0, len(data)
        while at < size:
            byte = data[at]
            if not self.is_glue:
                if self.prefix[0] == _QUOTE:
                    if not self._escaped:
                        # The inside of a string goes in one piece.
                        inside = _INSIDE.match(data, at)
                        if inside is not None:
                            self.prefix += inside[0]
                            at = inside.end()
                            continue
                    at += 1
                    self.prefix.append(byte)
                    if self._escaped:
                        self._escaped = False
                    elif byte == _ESCAPE:
                        self._escaped = True
                    else:
                        yield self._end_value()
                    continue
                if byte not in b",]} \n\r\t":
                    self.prefix.append(byte)
                    at += 1
                    continue
                yield self._end_value()
            if not self.prefix and self._stack:
                known = self._known_glue(data, at)
                if known is not None:
                    at += len(known.text)
                    self.prefix.append(data[at])
                    at += 1
                    yield known
                    continue
            if self._key is not None:
                inside = None if self._escaped else _INSIDE.match(data, at)
                if inside is not None:
                    self._key += inside[0]
                    self.prefix += inside[0]
                    at = inside.end()
                    continue
                self._feed_key(byte)
            elif byte == _QUOTE and self._expect_key:
                self._key = bytearray()
            elif byte in b",:{}[]" or byte in _SPACES:
                self._structure(byte)
            else:
                yield self._start_value()
            self.prefix.append(byte)
            at += 1
            if self.done and self.is_glue and not self._stack and byte in b"}]":
                yield Segment(True, self.node, bytes(self.prefix), None)

    def _end_value(self) -> Segment:
        segment = Segment(False, self.node, bytes(self.prefix), None)
        self.is_glue = True
        self.prefix = bytearray()
        self.done = not self._stack
        return segment

    def _start_value(self) -> Segment:
        segment = Segment(True, self.node, bytes(self.prefix), self._pending)
        self.is_glue = False
        self.node = self._pending
        self.prefix = bytearray()
        self._escaped = False
        return segment

    def _known_glue(self, data: bytes, at: int) -> Segment | None:
        """The glue that starts at `at`, where it is whole, was met before and opens and closes nothing."""
        for outcome in self.node.glue.outcomes[:_MAX_TRIED]:
            text, following = outcome.text, outcome.following
            end = at + len(text)
            if outcome.is_flat and following is not None and data.startswith(text, at) and end < len(data):
                # With a quote a key might start, except after a colon and in arrays.
                after_colon = text.rstrip().endswith(b":")
                if data[end] not in _STRUCTURE and (after_colon or self._stack[-1][1]):
                    self.is_glue, self._escaped, self._expect_key = False, False, False
                    segment = Segment(True, self.node, text, following)
                    self.node = self._pending = following
                    return segment
        return None

    def _feed_key(self, byte: int) -> None:
        assert self._key is not None
        if self._escaped:
            self._escaped = False
        elif byte == _ESCAPE:
            self._escaped = True
        elif byte == _QUOTE:
            self._pending = self._memory.child(
                self._stack[-1][0] if self._stack else self._memory.root, bytes(self._key)
            )
            self._key = None
            self._expect_key = False
            return
        self._key.append(byte)

    def _structure(self, byte: int) -> None:
        if byte == 0x7B:  # {
            self._stack.append((self._pending, False))
            self._expect_key = True
        elif byte == 0x5B:  # [
            self._stack.append((self._pending, True))
            self._pending = self._memory.child(self._pending, b"[]")
        elif byte in b"}]":
            self._expect_key = False
            if self._stack:
                self._stack.pop()
            self.done = not self._stack
        elif byte == 0x2C and self._stack:  # ,
            container, is_array = self._stack[-1]
            self._expect_key = not is_array
            if is_array:
                self._pending = self._memory.child(container, b"[]")
