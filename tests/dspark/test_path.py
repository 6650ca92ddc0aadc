"""The path tracker in any layout and any cut of the output."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dspark.memory import Memory, Node
from pipeline.dspark.path import PathTracker

_TEXTS = st.text(max_size=8)
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXTS)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
_RECORDS = st.dictionaries(_TEXTS, _VALUES, max_size=4)
_quick = settings(max_examples=60, deadline=None)


def _path(node: Node | None) -> tuple[str, ...]:
    keys: list[str] = []
    while node is not None and node.parent is not None:
        keys.append(node.key.decode("utf-8", "surrogatepass"))
        node = node.parent
    return tuple(reversed(keys))


def _scalars(value: Any, path: tuple[str, ...], ascii_only: bool) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        inside = [(json.dumps(k, ensure_ascii=ascii_only)[1:-1], v) for k, v in value.items()]
        return [one for key, v in inside for one in _scalars(v, (*path, key), ascii_only)]
    if isinstance(value, list):
        return [one for v in value for one in _scalars(v, (*path, "[]"), ascii_only)]
    return [(path, json.dumps(value, ensure_ascii=ascii_only))]


@_quick
@given(
    value=_RECORDS,
    indent=st.sampled_from([None, 2, "\t"]),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    ascii_only=st.booleans(),
    size=st.integers(1, 9),
)
def test_every_scalar_is_found_at_its_path(
    value: Any, indent: Any, separators: Any, ascii_only: bool, size: int
) -> None:
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    tracker = PathTracker(Memory())
    segments = [s for at in range(0, len(data), size) for s in tracker.feed(data[at : at + size])]
    found = [(_path(s.node), s.text.decode("utf-8", "surrogatepass")) for s in segments if not s.is_glue]
    assert found == _scalars(value, (), ascii_only)
    assert tracker.done
    # Glue and values together are the whole output.
    assert b"".join(s.text for s in segments) == data


@_quick
@given(value=_RECORDS, cut=st.integers(0, 200))
def test_a_clone_goes_on_alone(value: Any, cut: int) -> None:
    data = json.dumps(value).encode()
    tracker = PathTracker(Memory())
    list(tracker.feed(data[:cut]))
    before = (tracker.is_glue, tracker.node, bytes(tracker.prefix), tracker.done)
    clone = tracker.clone()
    list(clone.feed(data[cut:]))
    assert clone.done
    assert (tracker.is_glue, tracker.node, bytes(tracker.prefix), tracker.done) == before
