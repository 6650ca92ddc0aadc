"""What Pydantic finds wrong with settings, said for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_COUNTS = frozenset(
    {
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    }
)
_SHARES = frozenset({"gpu_memory_utilization"})


def fault_line(fault: ErrorDetails, settings: type[BaseModel]) -> str:
    """One fault of values for ``settings``; what came is repeated only where it cannot be a secret."""
    *section, name = fault["loc"] or ("settings",)
    kind, message = fault["type"], fault["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        known = list(_class_at(section, settings).model_fields)
        close = get_close_matches(str(name), known, n=1)
        message = f"there is no such setting; {f'did you mean {close[0]}?' if close else 'known: ' + ', '.join(known)}"
    elif kind == "model_type":
        message = "expected a mapping of settings"
    elif kind.startswith(("greater_than", "less_than", "literal_error")):
        message = f"{message}, got {fault['input']!r}"
    return f"{'.'.join(map(str, (*section, name)))}: {message}"


def engine_arg_fault(name: str, value: Any) -> str | None:
    """What is wrong with an engine argument that can be judged without vLLM; None for the others and for right ones."""
    if name in _COUNTS and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        return f"{name} must be a whole number of at least 1, got {value!r}"
    if name in _SHARES and (not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1):
        return f"{name} must be a number above 0 and at most 1, got {value!r}"
    return None


def holds(values: Any, place: Sequence[int | str]) -> bool:
    """Whether a setting stands in these values."""
    for key in place:
        if not isinstance(values, Mapping):
            return True  # an item of a list, or a part of a value that is wrong as a whole
        if key not in values:
            return False
        values = values[key]
    return True


def _class_at(section: Sequence[int | str], settings: type[BaseModel]) -> type[BaseModel]:
    found = settings
    for name in (name for name in section if isinstance(name, str)):
        annotation = found.model_fields[name].annotation
        classes = [c for c in (annotation, *get_args(annotation)) if isinstance(c, type) and issubclass(c, BaseModel)]
        found = classes[0] if classes else found
    return found
