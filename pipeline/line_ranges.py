"""Lines of a byte range of a file: ranges that share a file out give each of its lines once."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.storage import Storage

_BLOCK_BYTES = 1 << 20


def lines_of(uri: str, start: int, stop: int) -> Iterator[bytes]:
    """Lines that begin in ``[start, stop)``, without their ends."""
    with Storage(uri).open_input(start=max(start - 1, 0)) as stream:
        at, rest = max(start - 1, 0), b""
        skipping = start > 0  # the byte before the range tells whether a line begins at its start
        while True:
            block = stream.read(_BLOCK_BYTES)
            if not block:
                break
            pieces = (rest + block).split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                begin, at = at, at + len(piece) + 1
                if skipping:
                    skipping = False
                    continue
                if begin >= stop:
                    return
                yield piece.removeprefix(b"\xef\xbb\xbf") if begin == 0 else piece
        if rest and not skipping and at < stop:
            yield rest.removeprefix(b"\xef\xbb\xbf") if at == 0 else rest


def count_lines(uri: str, start: int, stop: int) -> int:
    """How many lines :func:`lines_of` gives, found without making them."""
    at = max(start - 1, 0)
    with Storage(uri).open_input(start=at) as stream:
        count, begins = 0, start == 0  # does a line begin at the next byte, if there is one?
        while at < stop and (block := stream.read(min(stop - at, _BLOCK_BYTES))):
            count += begins + block.count(b"\n", 0, len(block) - 1)
            begins, at = block.endswith(b"\n"), at + len(block)
    return count
