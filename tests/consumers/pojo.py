"""Plain Java classes for a field type, as a user of Gson or Jackson would write them."""

from __future__ import annotations

from pipeline.field_types import Field, FieldType

_BOXED = {"boolean": "Boolean", "number": "Double", "string": "String", "decimal": "java.math.BigDecimal"}
_PRIMITIVE = {"Boolean": "boolean", "Double": "double", "Long": "long", "Integer": "int"}
_DATES = ("date", "timestamp", "timestamp_ntz")


def java_classes(name: str, type_: FieldType, *, id_field: str = "doc_id") -> str:
    """Source of a public class ``name`` with public fields and static classes for what is nested."""
    fields = (Field(id_field, FieldType("string"), True), *type_.fields)
    nested: list[str] = []
    lines = [f"  public {_java_type(f, name, nested)} {f.name};" for f in fields]
    return "\n".join([f"public class {name} {{", *lines, *nested, "}", ""])


def _java_type(field: Field, prefix: str, nested: list[str]) -> str:
    boxed = _boxed(field.type, prefix + field.name.title().replace("_", ""), nested)
    may_be_null = field.type.nullable or not field.required
    return boxed if may_be_null else _PRIMITIVE.get(boxed, boxed)


def _boxed(type_: FieldType, name: str, nested: list[str]) -> str:
    if type_.kind in _DATES:
        return "java.util.Date"
    if type_.kind == "integer":
        return "Integer" if type_.bits <= 32 else "Long"
    if type_.kind == "list":
        assert type_.item is not None
        return f"java.util.List<{_boxed(type_.item, name, nested)}>"
    if type_.kind == "struct":
        lines = [f"    public {_java_type(f, name, nested)} {f.name};" for f in type_.fields]
        nested.append("\n".join([f"  public static class {name} {{", *lines, "  }"]))
        return name
    return _BOXED[type_.kind]
