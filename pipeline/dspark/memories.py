"""The histories of the schemas an engine works with, bounded in number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.memory import Memory
from pipeline.dspark.weights import Weights

MAX_SCHEMAS = 64


class Memories:
    """One :class:`Memory` per schema, the least recently used forgotten beyond ``max_schemas``.

    What is learned across schemas (weights, acceptance estimates) is shared by all and kept.
    """

    def __init__(self, *, max_schemas: int = MAX_SCHEMAS) -> None:
        self._weights = Weights()
        self._estimates = Estimates()
        self._max_schemas = max_schemas
        self._by_schema: OrderedDict[Hashable, Memory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_schema)

    def of(self, schema: Hashable) -> Memory:
        """The memory of ``schema`` (any hashable that is equal for equal schemas), made where it is new."""
        memory = self._by_schema.get(schema)
        if memory is None:
            memory = self._by_schema[schema] = Memory(self._weights, self._estimates)
            if len(self._by_schema) > self._max_schemas:
                self._by_schema.popitem(last=False)
        else:
            self._by_schema.move_to_end(schema)
        return memory
