"""Where a Pydantic class comes from, as plain data, so that a worker on another machine can have it too."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pipeline.errors import SchemaError

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class ClassOrigin:
    """A class by import path, by the source text of its file, or (defined in a notebook or script) pickled by value.

    A worker tries them in this order; ``source`` must import installed packages only.
    """

    qualname: str
    module: str | None = None
    source: str | None = None
    file: str | None = None
    pickled: bytes | None = None

    def load(self) -> type[BaseModel]:
        """The class, on any machine. Raises SchemaError where none of the ways works."""
        if self.module is not None and (self.source is None or importable(self.module)):
            return _attribute(_import(self.module), self.qualname, self.module)
        if self.source is not None:
            return _attribute(_module_of_source(self.source, self.file or "schema.py"), self.qualname, self.file or "")
        if self.pickled is not None:
            import pickle

            if (own := _OWN_CLASSES.get(_digest(self.pickled))) is not None:
                return own
            loaded = pickle.loads(self.pickled)  # written by origin_of_class on the driver of this very run
            assert isinstance(loaded, type)
            return loaded
        raise SchemaError(f"the class {self.qualname} has no origin")


def origin_of_file(file: str, class_name: str) -> ClassOrigin:
    """``FILE.py:Class``: the file's text travels to the workers."""
    path = Path(file)
    try:
        source = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SchemaError(f"cannot read the schema file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"the schema file {file} is not UTF-8 text") from None
    return ClassOrigin(qualname=class_name, source=source, file=str(path))


def origin_of_class(cls: type[BaseModel]) -> ClassOrigin:
    """A class object: by import path with its file's text as a fallback; by value where no import can find it."""
    module, qualname = cls.__module__, cls.__qualname__
    if module != "__main__" and _found_in(sys.modules.get(module), qualname) is cls:
        file = getattr(sys.modules[module], "__file__", None)
        if module.startswith("_schema_"):
            return ClassOrigin(qualname=qualname, source=inspect.getsource(sys.modules[module]), file=file)
        source = Path(file).read_text(encoding="utf-8-sig") if file and file.endswith(".py") else None
        return ClassOrigin(qualname=qualname, module=module, source=source, file=file)
    from pyspark import cloudpickle

    pickled = cloudpickle.dumps(cls)
    _OWN_CLASSES[_digest(pickled)] = cls
    return ClassOrigin(qualname=qualname, pickled=pickled)


def _found_in(module: types.ModuleType | None, qualname: str) -> object:
    """What an import would find; not the class where it is local, made by a function, or a filled-in generic."""
    found: object = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


_OWN_CLASSES: WeakValueDictionary[bytes, type[BaseModel]] = WeakValueDictionary()
"""Classes that this process pickled. Loading one here would not make a second class: cloudpickle finds the first and
puts the pickled state into it, and from then on its validators would not see what a notebook changes around them."""


def _digest(pickled: bytes) -> bytes:
    return hashlib.sha256(pickled).digest()


def importable(module: str) -> bool:
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _import(module: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise SchemaError(f"cannot import {module}: {type(error).__name__}: {error}") from error


def _module_of_source(source: str, file: str) -> types.ModuleType:
    """Run a file once per process under a name made of its text, registered so that annotations resolve."""
    name = "_schema_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = file
        sys.modules[name] = module
        import linecache

        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        try:
            exec(compile(source, file, "exec"), module.__dict__)
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):
                raise SchemaError(f"the schema file {file} ended the process: {error!r}") from None
            raise SchemaError(f"the schema file {file} does not run: {type(error).__name__}: {error}") from error
    return sys.modules[name]


def _attribute(module: types.ModuleType, qualname: str, where: str) -> type[BaseModel]:
    from pydantic import BaseModel

    found: object = module
    for part in qualname.split("."):
        if not hasattr(found, part):
            classes = [n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, BaseModel)]
            known = ", ".join(n for n in classes if n != "BaseModel") or "none"
            raise SchemaError(f"{where} has no class {qualname!r}", hint=f"Pydantic classes there: {known}")
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise SchemaError(f"{where}:{qualname} is not a Pydantic class", hint="derive it from pydantic.BaseModel")
    return found
