"""A class without a module travels by value, and stays the user's own class in the process that has it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from pipeline.schema_origin import origin_of_class, origin_of_file

LOAD = """
import pickle, sys
cls = pickle.load(sys.stdin.buffer).load()
print(cls(name="Ann").name)
try:
    cls(name="Eve")
except ValueError:
    print("refused")
"""


def test_a_class_of_a_cell_loads_elsewhere_and_follows_what_changes_around_it_here() -> None:
    known = {"Ann"}

    class Person(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def _is_known(cls, value: str) -> str:
            if value not in known:
                raise ValueError("unknown person")
            return value

    origin = origin_of_class(Person)
    assert origin.module is None
    assert origin.load() is Person
    shipped = pickle.dumps(origin)
    assert pickle.loads(shipped).load() is Person
    done = subprocess.run([sys.executable, "-c", LOAD], input=shipped, capture_output=True, check=True)
    assert done.stdout.split() == [b"Ann", b"refused"]

    with pytest.raises(ValidationError):
        Person(name="Eve")
    known.add("Eve")
    assert Person(name="Eve").name == "Eve", "loading must not have frozen the user's class"


def test_a_file_with_a_byte_order_mark_runs(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import pydantic\nclass Bom(pydantic.BaseModel):\n    a: int\n", encoding="utf-8-sig"
    )
    assert origin_of_file(str(tmp_path / "s.py"), "Bom").load()(a=1).model_dump() == {"a": 1}
