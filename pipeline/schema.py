"""The user's schema in its one canonical form: JSON Schema 2020-12 with local references and closed objects.

Accepted: ``FILE.py:Class``, ``package.module:Class``, ``FILE.json``, Spark DDL text, a Pydantic class, a dict.
Values of a field keep the JSON types of the schema; ``x-arrow`` in a field's schema chooses another column type
(``int8`` to ``int64``, ``float32``, ``decimal128(p, s)``; the last also lifts the int64 bound of an integer).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from pipeline import schema_origin
from pipeline.canonical import Formats, canonical
from pipeline.ddl import is_ddl, parse_ddl
from pipeline.errors import SchemaError
from pipeline.merge_policy import without_merge
from pipeline.references import BASE, Resources
from pipeline.schema_origin import ClassOrigin
from pipeline.strict_json import JsonTextError, dumps, loads

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

Source = Literal["pydantic", "json_schema", "ddl"]


@dataclass(frozen=True)
class Schema:
    """A schema as plain data: it pickles, and a worker gets the Pydantic class back through ``model_class``.

    ``json_schema`` is canonical and must not be changed; ``fingerprint`` is the SHA-256 of its text and of the
    sources of a class's own validators. ``original``, where set, is a document that values must satisfy as well.
    ``formats`` says whether ``format`` is checked; "annotate" has already left it out of ``json_schema``.
    ``extraction_fingerprint`` leaves out how chunks are merged (``merge``, ``key``): equal for schemas that differ in
    nothing that the model or validation sees, so that their outcomes can be shared.
    """

    name: str
    json_schema: dict[str, Any] = field(hash=False)
    fingerprint: str
    source: Source
    origin: ClassOrigin | None = None
    original: dict[str, Any] | None = field(default=None, hash=False)
    extraction_fingerprint: str = ""
    formats: Formats = "assert"

    def model_class(self) -> type[BaseModel] | None:
        """The Pydantic class, or None where the schema is no class. Raises SchemaError where it cannot be loaded."""
        return self.origin.load() if self.origin is not None else None


@dataclass(frozen=True, slots=True)
class _Options:
    close_objects: bool
    require_object: bool
    resources: Resources | None
    formats: Formats = "assert"


def load_schema(
    spec: str | type | Mapping[str, Any],
    *,
    close_objects: bool = True,
    require_object: bool = True,
    resources: Mapping[str, Mapping[str, Any]] | None = None,
    formats: Formats = "assert",
) -> Schema:
    """Read a schema in any accepted form.

    ``close_objects`` adds ``additionalProperties: false`` to objects with declared properties that do not speak of
    it. ``require_object`` refuses a root that is not an object. ``resources`` are other documents by address; beside
    them a reference may name a file in the folder of ``FILE.json`` or below; nothing is ever fetched. ``formats`` of a
    JSON Schema document: "assert" checks ``format`` (a date must exist, and has a date column), "annotate" ignores it,
    as the 2020-12 dialect does by default. Raises SchemaError that names the file or the path and keyword.
    """
    options = _Options(close_objects, require_object, (resources or {}).get if resources else None, formats)
    if isinstance(spec, Mapping):
        return _from_document(dict(spec), "record", "json_schema", options)
    if isinstance(spec, type):
        return _from_class(spec, schema_origin.origin_of_class(_model(spec)), options)
    if not isinstance(spec, str):
        raise SchemaError(f"a schema is a text, a class or a dict, not {type(spec).__name__}")
    text = spec.strip()
    if not text:
        raise SchemaError("the schema is blank", hint="FILE.py:Class, package.module:Class, FILE.json or DDL")
    if text[0] in '{["' or text in ("null", "true", "false"):
        return _from_text(text, "record", "the schema text", options)
    if is_ddl(text):
        return _from_document(parse_ddl(text), "record", "ddl", options)
    if text.endswith(".json"):
        return _from_file(Path(text), options)
    file, colon, class_name = text.rpartition(":")
    if colon and file.endswith(".py"):
        origin = schema_origin.origin_of_file(file, class_name)
        return _from_class(origin.load(), origin, options)
    if colon and all(part.isidentifier() for part in [*file.split("."), *class_name.split(".")]):
        cls = ClassOrigin(qualname=class_name, module=file).load()
        return _from_class(cls, schema_origin.origin_of_class(cls), options)
    if text.endswith(".py"):
        raise SchemaError(f"{text} names no class", hint=f"write {text}:Class")
    raise SchemaError(
        f"{text[:80]!r} is no schema", hint="FILE.py:Class, package.module:Class, FILE.json or DDL (id BIGINT, …)"
    )


def arrow_type(schema: Schema) -> pa.StructType:
    """The Arrow struct of one record, from the schema and never from data."""
    from pipeline.schema_types import arrow_struct

    return arrow_struct(schema)


def spark_ddl(schema: Schema) -> str:
    """The columns of one record as Spark DDL; the same types as :func:`arrow_type`."""
    from pipeline.schema_types import ddl_of

    return ddl_of(schema)


def to_arrow_value(schema: Schema, value: Any) -> Any:
    """A validated JSON value as the Python value for :func:`arrow_type` (dates, decimals, zoned datetimes, bytes)."""
    from pipeline.schema_types import arrow_value

    return arrow_value(schema, value)


def _from_file(path: Path, options: _Options) -> Schema:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SchemaError(f"cannot read the schema file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"the schema file {path} is not UTF-8 text") from None
    name = path.stem.removesuffix(".schema")
    if options.resources is None:
        options = replace(options, resources=lambda address: _sibling(path.parent, address))
    return _from_text(text, name, f"the schema file {path}", options)


def _sibling(folder: Path, address: str) -> Mapping[str, Any] | None:
    """Another schema file in the same folder or below."""
    name = unquote(address.removeprefix(BASE)) if address.startswith(BASE) else ""
    if not name or ".." in Path(name).parts:
        return None
    try:
        found = loads((folder / name).read_text(encoding="utf-8-sig"))
    except OSError:
        return None
    except (JsonTextError, UnicodeDecodeError) as error:
        raise SchemaError(f"the schema file {folder / name} is not JSON: {error}", keyword="$ref") from None
    return found if isinstance(found, dict) else None


def _from_text(text: str, name: str, what: str, options: _Options) -> Schema:
    if not text.strip():
        raise SchemaError(f"{what} is blank")
    try:
        document = loads(text)
    except JsonTextError as error:
        raise SchemaError(f"{what} is not JSON: {error.message}") from None
    if not isinstance(document, dict):
        raise SchemaError(f"{what} is {_kind(document)}, not an object")
    try:
        return _from_document(document, name, "json_schema", options)
    except SchemaError as error:
        message = f"{what}: {error.message}"
        raise SchemaError(message, path=error.path, keyword=error.keyword, hint=error.hint) from error


def _from_document(document: dict[str, Any], name: str, source: Source, options: _Options) -> Schema:
    if not document:
        raise SchemaError("the schema is empty: it would allow any value", hint="declare type and properties")
    if options.require_object and "type" not in document and "properties" in document:
        document = {"type": "object", **document}
    if options.formats == "annotate" and source == "ddl":
        raise _formats_are_types("a DDL schema")
    found = canonical(
        document, close_objects=options.close_objects, resources=options.resources, formats=options.formats
    )
    if options.require_object:
        _check_root(found.json_schema)
    title = document.get("title")
    return Schema(
        name=str(title) if isinstance(title, str) and title else name, json_schema=found.json_schema,
        fingerprint=_hash(found.json_schema, dumps(found.original) if found.original else ""), source=source,
        original=found.original, extraction_fingerprint=_hash(
            without_merge(found.json_schema), dumps(without_merge(found.original)) if found.original else ""
        ),
        formats=options.formats,
    )  # fmt: skip


def _from_class(cls: type, origin: ClassOrigin, options: _Options) -> Schema:
    from pipeline.pydantic_schema import class_json_schema, source_fingerprint

    model = _model(cls)
    if options.formats == "annotate":
        raise _formats_are_types("a Pydantic class")
    json_schema = canonical(class_json_schema(model), close_objects=options.close_objects).json_schema
    if options.require_object:
        _check_root(json_schema)
    sources = source_fingerprint(model)
    return Schema(
        model.__name__, json_schema, _hash(json_schema, sources), "pydantic", origin,
        extraction_fingerprint=_hash(without_merge(json_schema), sources),
    )  # fmt: skip


def _model(cls: type) -> type[BaseModel]:
    from pydantic import BaseModel

    if not issubclass(cls, BaseModel) or cls is BaseModel:
        raise SchemaError(f"{cls.__name__} is not a Pydantic class", hint="derive it from pydantic.BaseModel")
    return cls


def _formats_are_types(what: str) -> SchemaError:
    return SchemaError(f"formats of {what} are its types and always checked", keyword="format")


def _check_root(json_schema: dict[str, Any]) -> None:
    from pipeline.field_types import infer

    root = infer(json_schema)
    if root.kind not in ("struct", "map") or root.nullable:
        raise SchemaError(
            f"a record must be an object, but the root allows {'null' if root.nullable else 'a ' + root.kind}",
            path="#", keyword="type", hint='wrap it: {"type": "object", "properties": {"items": …}}',
        )  # fmt: skip


def _hash(json_schema: dict[str, Any], extra: str = "") -> str:
    return hashlib.sha256((dumps(json_schema) + extra).encode("utf-8", "surrogatepass")).hexdigest()


def _kind(value: Any) -> str:
    return {type(None): "null", list: "a list", bool: "true or false", str: "a string"}.get(type(value), "a number")
