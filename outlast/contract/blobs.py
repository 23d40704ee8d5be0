"""Replaces large content of a record by references to blobs, and puts the content back.

A blob holds one text, or a JSON list of texts with an index each. Its key is the SHA-256 of its
bytes. A user's value with a key like those of references is escaped, with a store and without, so
that it is unchanged when it comes back and reads no blob. A key like ours that is neither a
reference nor an escape is an ordinary key. Pure functions: where blobs are kept is not this
module's concern.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from outlast.loop.items import Item
from outlast.loop.stored import KEPT, MOVED_ABOVE, Moved, Offload, long_texts
from outlast.loop.values import BLOB, Json, JsonObject, is_reference, placeholder, reference

ESCAPED: Final = "$outlast.json"
"""The one key of a dict that wraps a user's dict with keys like ours."""

OWN: Final = "$outlast."
"""The prefix of all our keys."""

THRESHOLD_BYTES: Final = 64_000
"""The default threshold: content larger than this moves to the blob store."""

SMALLEST_THRESHOLD: Final = 1_000
"""The lowest threshold that is used to make a message fit."""

NEVER: Final = sys.maxsize
"""The threshold without a store: all content stays inline."""

PACK_BYTES: Final = 4_000_000
"""The largest size of a blob that holds several texts."""

MOST_MOVED: Final = 20_000
"""How many texts move in one effect: their references travel in one payload."""

Contents: TypeAlias = dict[str, bytes]
"""Blobs by their keys."""

Address: TypeAlias = tuple[str, bool]
"""The key of a blob, and whether it holds several texts."""


class LostText(str):
    """The words in place of content that is gone for good."""

    __slots__ = ()


_FREE_TEXTS: Final = frozenset(
    {"text", "content", "output", "refusal", "arguments", "input", "stdout", "stderr"}
)
"""Fields that may hold any text. Providers refuse words in others, such as `image_url`."""


def key_of(data: bytes) -> str:
    """Return the key of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode(text: str) -> bytes:
    """Return a text as the bytes of a blob; lone surrogates survive."""
    return text.encode(errors="surrogatepass")


def decode(data: bytes) -> str:
    """Return the text in a blob.

    Raises:
        ValueError: the blob holds no text.
    """
    return data.decode(errors="surrogatepass")


def split(value: Json, least: int, blobs: Contents) -> Json:
    """Return a value with references instead of long texts; add their content to `blobs`.

    Args:
        value: any JSON.
        least: texts of fewer bytes stay inline.
        blobs: receives the content.
    """
    return _split(value, least, blobs, kept=frozenset())


def split_item(raw: JsonObject, least: int, blobs: Contents) -> JsonObject:
    """Return an item with references instead of long texts, except in fields that stay inline."""
    made: JsonObject = _split(raw, least, blobs, kept=KEPT)
    return made


def escape(value: Json) -> Json:
    """Return a value whose content stays inline and in which nothing reads as a reference."""
    return _split(value, NEVER, {}, kept=frozenset()) if _has_own_key(value) else value


def escape_item(raw: JsonObject) -> JsonObject:
    """Return an item whose content stays inline and in which nothing reads as a reference."""
    return split_item(raw, NEVER, {}) if _has_own_key(raw) else raw


def escape_fields(raw: JsonObject) -> JsonObject:
    """Return an item with escaped fields; the loop reads its keys, which no reference has."""
    return {name: escape(value) for name, value in raw.items()} if _has_own_key(raw) else raw


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def _has_own_key(value: Json) -> bool:
    if isinstance(value, dict):
        for key, inner in cast("JsonObject", value).items():
            if key.startswith(OWN) or (type(inner) not in _PLAIN and _has_own_key(inner)):
                return True
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            if type(inner) not in _PLAIN and _has_own_key(inner):
                return True
    return False


def _split(value: Json, least: int, blobs: Contents, *, kept: frozenset[str]) -> Json:
    if isinstance(value, str):
        return _moved(value, least, blobs)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return [_split(one, least, blobs, kept=frozenset()) for one in entries]
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        made = {
            key: inner
            if key in kept and is_plain(inner)
            else _split(inner, least, blobs, kept=frozenset())
            for key, inner in fields.items()
        }
        return {ESCAPED: made} if any(key.startswith(OWN) for key in fields) else made
    return value


def _moved(text: str, least: int, blobs: Contents) -> Json:
    if len(text) * 4 < least:  # a character has at most four bytes
        return text
    data = encode(text)
    if len(data) < least:
        return text
    key = key_of(data)
    blobs[key] = data
    return reference(key, len(data))


def split_to_fit(
    items: Sequence[JsonObject], least: int, most: int, blobs: Contents
) -> list[JsonObject]:
    """Return items that fit into a payload, with as few texts in blobs as possible.

    Args:
        items: the items to send.
        least: texts of fewer bytes stay inline, unless the items would be too large.
        most: the maximum size of the items, in bytes of JSON.
        blobs: receives the content.
    """
    while True:
        found: Contents = {}
        made = [split_item(one, least, found) for one in items]
        if least <= SMALLEST_THRESHOLD or len(json.dumps(made)) <= most:
            blobs.update(found)
            return made
        least = max(least // 4, SMALLEST_THRESHOLD)


def references(value: Json) -> Iterator[JsonObject]:
    """Yield the references in a value."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        if is_reference(fields):
            yield fields
        else:
            escaped = _escaped(fields)
            for inner in (fields if escaped is None else escaped).values():
                yield from references(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from references(inner)


def has_references(value: Json) -> bool:
    """Whether a value refers to content in a store."""
    return next(references(value), None) is not None


def _escaped(fields: JsonObject) -> JsonObject | None:
    """Return the dict that an escape wraps; None for any other dict."""
    inner: Json = fields.get(ESCAPED)
    return cast("JsonObject", inner) if len(fields) == 1 and isinstance(inner, dict) else None


def is_plain(value: Json) -> bool:
    """Whether a value holds neither references nor escaped dicts."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        if is_reference(fields) or _escaped(fields) is not None:
            return False
        return all(is_plain(one) for one in fields.values() if isinstance(one, (dict, list)))
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return all(is_plain(one) for one in entries if isinstance(one, (dict, list)))
    return True


def join(value: Json, text_of: Callable[[JsonObject], Json]) -> Json:
    """Return a value with references replaced by their texts.

    Args:
        value: a result of `split`.
        text_of: returns the text of a reference, or a replacement to show.
    """
    if isinstance(value, list):
        return [join(one, text_of) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("JsonObject", value)
    if is_reference(fields):
        return text_of(fields)
    inner = _escaped(fields)
    return {key: join(one, text_of) for key, one in (fields if inner is None else inner).items()}


def address(ref: JsonObject) -> Address:
    """Return the blob that a reference needs, and whether the blob holds several texts."""
    return ref[BLOB], "part" in ref


def lost_text(ref: JsonObject, why: str) -> LostText:
    """Return the words in place of a reference whose content is gone for good."""
    return LostText(f"[{ref['bytes']:,} bytes of content were here and are lost: {why}]")


def sendable(raw: JsonObject) -> JsonObject:
    """Return an item that providers accept although it has lost content.

    Words take the place of a text. Where words cannot stand, such as for an image, a part with the
    words replaces the whole part, or a note of the developer the whole item.
    """
    if next(_lost_in(raw), None) is None:
        return raw
    kind = "output_text" if raw.get("role") == "assistant" else "input_text"
    made = {
        name: [_part(part, kind) for part in cast("list[Any]", value)]
        if name in {"content", "output"} and isinstance(value, list)
        else value
        for name, value in raw.items()
    }
    if all(name in _FREE_TEXTS for name, _ in _lost_in(made)):
        return made
    words = dict.fromkeys(words for _, words in _lost_in(raw))
    return {"role": "developer", "content": "\n".join(words)}


def _part(part: Json, kind: str) -> Json:
    lost = list(_lost_in(part))
    if all(name in _FREE_TEXTS for name, _ in lost):
        return part
    words: JsonObject = {"type": kind, "text": "\n".join(dict.fromkeys(text for _, text in lost))}
    return {**words, "annotations": []} if kind == "output_text" else words


def _lost_in(value: Json, name: str = "") -> Iterator[tuple[str, LostText]]:
    """Yield the words for lost content in a value, with the name of each one's field."""
    if isinstance(value, LostText):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in cast("JsonObject", value).items():
            yield from _lost_in(inner, key)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _lost_in(inner)


def readable(value: Json) -> Json:
    """Return a value with placeholders instead of references, for people to read."""
    if is_plain(value):
        return value
    return join(value, placeholder)


def text_in(content: Mapping[Address, list[str]], ref: JsonObject) -> str:
    """Return the text of a reference.

    Raises:
        ValueError: the blob does not hold the text.
    """
    texts = content[address(ref)]
    part: int = ref.get("part", 0)
    if not 0 <= part < len(texts):
        raise ValueError(f"The blob {ref[BLOB]} has no part {part}.")
    return texts[part]


def read_blob(data: bytes, *, parts: bool) -> list[str]:
    """Return the texts in a blob.

    Raises:
        ValueError: the data has another format.
    """
    if not parts:
        return [decode(data)]
    texts: Any = json.loads(data)
    if not isinstance(texts, list) or not all(
        isinstance(one, str) for one in cast("list[Any]", texts)
    ):
        raise ValueError("The blob does not hold a list of texts.")
    return cast("list[str]", texts)


def offload(items: Sequence[Item], first: int, least: int, blobs: Contents) -> Offload:
    """Return the new places of a transcript range's content; add the content to `blobs`.

    Args:
        items: the range of the transcript.
        first: the index of the range in the transcript.
        least: texts of fewer bytes share a blob with others.
        blobs: receives the content.
    """
    keys: list[str] = []
    moved: list[Moved] = []
    pack: list[tuple[int, Any, str]] = []
    packed = 0

    def close() -> None:
        nonlocal packed
        if pack:
            data = json.dumps([text for _, _, text in pack]).encode()
            keys.append(_put(data, blobs))
            moved.extend(
                Moved(at, path, len(encode(text)), len(keys) - 1, part)
                for part, (at, path, text) in enumerate(pack)
            )
        pack.clear()
        packed = 0

    for at, item in enumerate(items, first):
        for path, text in long_texts(item.raw, MOVED_ABOVE):
            if len(moved) + len(pack) >= MOST_MOVED:
                break
            if path[-1:] == (ESCAPED,):  # a reference in its place would read as an escape
                continue
            if len(text) >= least:
                keys.append(_put(encode(text), blobs))
                moved.append(Moved(at, path, len(encode(text)), len(keys) - 1))
                continue
            pack.append((at, path, text))
            packed += len(text)
            if packed >= PACK_BYTES:
                close()
    close()
    return Offload(keys=tuple(keys), moved=tuple(moved))


def _put(data: bytes, blobs: Contents) -> str:
    key = key_of(data)
    blobs[key] = data
    return key
