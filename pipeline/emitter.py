"""Shapes to EBNF rules in one of the fixed layouts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pipeline import ebnf
from pipeline.shape_builder import MAX_COUNTED_ITEMS
from pipeline.shapes import AnyValue, Choice, Constants, Fraction, Items, Members, Shape, Text, Whole

_SEPARATORS = {"spaced": (", ", ": "), "compact": (",", ":"), "indented": (", ", ": ")}


@dataclass(frozen=True, slots=True)
class Emitted:
    """Grammar text with ``root`` first; ``depth`` counts the nested objects and lists of the fields, recursion once."""

    text: str
    depth: int


def emit(table: list[Shape], root: int, layout: str) -> Emitted:
    """``layout`` is spaced, indented or compact."""
    emitter = _Emitter(table, *_SEPARATORS[layout], closes_object=isinstance(table[root], Members | Choice))
    start = emitter.value(root, 0 if layout == "indented" else None)
    rules = {"root": start, **emitter.rules}
    return Emitted("".join(f"{name} ::= {body}\n" for name, body in rules.items()), emitter.depth)


@dataclass
class _Emitter:
    table: list[Shape]
    comma: str
    colon: str
    closes_object: bool
    rules: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    _names: dict[tuple[int, int | None], str] = field(default_factory=dict)
    _trail: list[int] = field(default_factory=list)

    def value(self, index: int, level: int | None) -> str:
        """The name of the rule for a shape. ``level`` is the indentation, None on one line."""
        shape = self.table[index]
        if not isinstance(shape, Items | Members | Choice):
            level = None
        if level is not None and index in self._trail:
            level = None  # a shape inside itself has no fixed indentation
        key = (index, level)
        if key in self._names:
            return self._names[key]
        if isinstance(shape, AnyValue):
            return self._any()
        name = self._names[key] = f"v{index}" if level is None else f"v{index}_{level}"
        self.rules[name] = ""  # keeps rules in reading order: parents first
        self._trail.append(index)
        nesting = sum(isinstance(self.table[i], Items | Members) for i in self._trail)
        self.depth = max(self.depth, nesting)
        self.rules[name] = self._body(shape, name, level)
        self._trail.pop()
        return name

    def _body(self, shape: Shape, name: str, level: int | None) -> str:
        if isinstance(shape, Constants):
            return " | ".join(ebnf.literal(self._layout(text)) for text in shape.texts)
        if isinstance(shape, Text):
            return self._text(shape)
        if isinstance(shape, Whole):
            return ebnf.integer_range(shape.low, shape.high, shape.digits)
        if isinstance(shape, Fraction):
            return ebnf.number(
                low_sign=shape.minus, high_sign=shape.plus, integer_digits=shape.integer_digits,
                fraction_digits=shape.fraction_digits, exponent=shape.exponent,
            )  # fmt: skip
        if isinstance(shape, Items):
            return self._items(shape, name, level)
        if isinstance(shape, Members):
            return self._members(shape, name, level)
        assert isinstance(shape, Choice)
        return " | ".join(self.value(option, level) for option in shape.options)

    def _layout(self, text: str) -> str:
        if text[0] not in "[{":
            return text
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(self.comma, self.colon))

    def _any(self) -> str:
        comma, colon = ebnf.literal(self.comma), ebnf.literal(self.colon)
        string = self._free_text()
        words = '"true" | "false" | "null"'
        self.rules.setdefault("json_any", f"{string} | json_number | {words} | json_list | json_object")
        number = ebnf.number(
            low_sign=True, high_sign=True, integer_digits=ebnf.INTEGER_DIGITS, fraction_digits=ebnf.FRACTION_DIGITS,
            exponent=True,
        )  # fmt: skip
        self.rules.setdefault("json_number", number)
        self.rules.setdefault("json_list", f'"[" (json_any ({comma} json_any)*)? "]"')
        self.rules.setdefault("json_object", f'"{{" (json_pair ({comma} json_pair)*)? "}}"')
        self.rules.setdefault("json_pair", f"{string} {colon} json_any")
        return "json_any"

    # strings

    def _free_text(self) -> str:
        self.rules.setdefault("json_text", r'"\"" json_rest')
        self._rest()
        return "json_text"

    def _rest(self) -> str:
        """The rest of a string with its closing quote, recursive to the right: the form with the cheapest masks."""
        if "json_rest" not in self.rules:
            look = r" (=[,:}\]\n])" if self.closes_object else ""
            body = rf'("\"" | {ebnf.PLAIN_CLASS} json_rest | {ebnf.ESCAPE} json_rest)'
            self.rules["json_rest"] = body + look
            self.rules.update(ebnf.ESCAPE_RULES)
        return "json_rest"

    def _text(self, shape: Text) -> str:
        if shape.content is not None:
            if "json_escape" in shape.content or "json_hex" in shape.content:
                self.rules.update(ebnf.ESCAPE_RULES)
            return rf'"\"" ({shape.content}) "\""'
        if shape.shortest == 0 and shape.longest is None:
            return self._free_text()
        return rf'"\"" {self._counted(shape.shortest, shape.longest)}'

    def _counted(self, shortest: int, longest: int | None) -> str:
        """The rest of a string of which ``shortest`` to ``longest`` characters are still to come; rules are shared."""
        if longest is None and shortest == 0:
            return self._rest()
        name = f"json_rest_{shortest}_{'' if longest is None else longest}"
        if name not in self.rules:
            self.rules[name] = ""
            self.rules.update(ebnf.ESCAPE_RULES)
            options = [r'"\""'] if shortest == 0 else []
            if longest != 0:
                after = self._counted(max(shortest - 1, 0), None if longest is None else longest - 1)
                options += [f"{ebnf.PLAIN_CLASS} {after}", f"{ebnf.ESCAPE} {after}"]
            look = r" (=[,:}\]\n])" if self.closes_object else ""
            self.rules[name] = f"({' | '.join(options)}){look}"
        return name

    # lists and objects

    def _open(self, level: int | None) -> tuple[str, str, str]:
        """(after the opening bracket, between members, before the closing bracket)."""
        if level is None:
            return "", self.comma, ""
        return "\n" + "  " * (level + 1), ",\n" + "  " * (level + 1), "\n" + "  " * level

    def _items(self, shape: Items, name: str, level: int | None) -> str:
        opening, comma, closing = self._open(level)
        inner = None if level is None else level + 1
        most = shape.most if shape.item is not None else min(len(shape.prefix), shape.most or len(shape.prefix))
        if most == 0 or (shape.item is None and not shape.prefix):
            return '"[]"'
        separator = ebnf.literal(comma)
        tail = ""
        if shape.item is not None:
            item = self.value(shape.item, inner)
            fewest = max(shape.fewest - len(shape.prefix), 0)
            rest = None if most is None or most > MAX_COUNTED_ITEMS else most - len(shape.prefix)
            tail = self._repeat(item, separator, fewest, rest, first=not shape.prefix)
        for position in reversed(range(len(shape.prefix))):
            if most is not None and position >= most:
                continue
            one = self.value(shape.prefix[position], inner)
            body = (f"{separator} " if position else "") + one + (f" {tail}" if tail else "")
            tail = body if position < shape.fewest or position == 0 else f"({body})?"
        full = f"{ebnf.literal('[' + opening)} {tail} {ebnf.literal(closing + ']')}"
        return full if shape.fewest > 0 else f'"[]" | {full}'

    @staticmethod
    def _repeat(item: str, separator: str, fewest: int, most: int | None, *, first: bool) -> str:
        """``fewest`` to ``most`` further items; with ``first`` the first has no separator and there is at least one."""
        if most is not None and most <= 0:
            return ""
        low = max(fewest - 1, 0) if first else fewest
        high = None if most is None else most - 1 if first else most
        lead = item if first else ""
        if high == 0:
            return lead
        count = "*" if (low, high) == (0, None) else f"{{{low},{'' if high is None else high}}}"
        return f"{lead} ({separator} {item}){count}".strip()

    def _members(self, shape: Members, name: str, level: int | None) -> str:
        opening, comma, closing = self._open(level)
        inner = None if level is None else level + 1
        pair = self._extra_pairs(shape, name, inner)
        following = ""
        beginning: list[str] = []
        if pair:
            self.rules[f"{name}_more"] = f'"" | {ebnf.literal(comma)} {pair} {name}_more'
            following = f"{name}_more"
            beginning = [f"{pair} {following}"]
        for position in reversed(range(len(shape.properties))):
            key, index, required = shape.properties[position]
            text = json.dumps(key, ensure_ascii=False) + self.colon
            value = self.value(index, inner)
            start = f"{ebnf.literal(text)} {value} {following}".strip()
            beginning = [start] if required else [start, *beginning]
            rest = f"{ebnf.literal(comma + text)} {value} {following}".strip()
            if position:
                options = [rest] if required else [rest, following or '""']
                self.rules[f"{name}_{position}_on"] = " | ".join(options)
                following = f"{name}_{position}_on"
        may_be_empty = not any(required for _, _, required in shape.properties)
        if not beginning:
            return '"{}"'
        first = beginning[0] if len(beginning) == 1 else f"({' | '.join(beginning)})"
        full = f"{ebnf.literal('{' + opening)} {first} {ebnf.literal(closing + '}')}"
        return f'{full} | "{{}}"' if may_be_empty else full

    def _extra_pairs(self, shape: Members, name: str, inner: int | None) -> str:
        options = []
        declared = [key for key, _, _ in shape.properties]
        for key, index in shape.extras:
            if key == Text():
                text = self._other_key(declared, name) if declared else self._free_text()
            elif isinstance(key, Constants):
                left = [t for t in key.texts if json.loads(t) not in declared]
                if not left:
                    continue
                text = f"({' | '.join(ebnf.literal(t) for t in left)})"
            else:
                text = f"({self._text(key)})"
            options.append(f"{text} {ebnf.literal(self.colon)} {self.value(index, inner)}")
        options = list(dict.fromkeys(options))
        if not options:
            return ""
        self.rules[f"{name}_extra"] = " | ".join(options)
        return f"{name}_extra"

    def _other_key(self, declared: list[str], name: str) -> str:
        """Any key but the declared ones, so that none is written twice or out of order (escapes are let through)."""
        rest = self._rest()

        def node(prefix: str, words: list[str]) -> str:
            rule = f"{name}_key_{len(prefix)}_{sum(r.startswith(f'{name}_key_') for r in self.rules)}"
            self.rules[rule] = ""
            heads = dict.fromkeys(word[len(prefix)] for word in words if len(word) > len(prefix))
            options = [] if prefix in words else [r'"\""']
            for head in heads:
                after = node(prefix + head, [word for word in words if word.startswith(prefix + head)])
                options.append(f"{ebnf.literal(head)} {after}")
            excluded = "".join(ebnf.class_character(ord(head)) for head in heads)
            options += [rf'[^"\\{excluded}\x00-\x1f] {rest}', f"{ebnf.ESCAPE} {rest}"]
            self.rules[rule] = " | ".join(options)
            return rule

        words = [word for word in declared if not any(ord(c) < 0x20 or c in '"\\' for c in word)]
        return rf'"\"" {node("", words)}'
