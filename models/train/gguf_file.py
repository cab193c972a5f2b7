"""Read and write GGUF files.

A GGUF file is a header, key-value metadata, a table of tensors, and then the
tensor data, each part aligned to 32 bytes. Everything is little-endian.
"""
import struct

import numpy as np

ALIGNMENT = 32
TENSOR_TYPES = {0: np.float32, 1: np.float16}
ARRAY = 9

# Metadata value types: name -> (number in the file, struct format).
VALUE_TYPES = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"),
               "bool": (7, "<?"), "str": (8, None)}
BY_NUMBER = {number: name for name, (number, _) in VALUE_TYPES.items()}


def encode(kind, value):
    if kind == "str":
        b = value.encode()
        return struct.pack("<Q", len(b)) + b
    return struct.pack(VALUE_TYPES[kind][1], value)


def key_value(key, kind, value):
    """Encode one metadata entry; a list becomes an array."""
    number = VALUE_TYPES[kind][0]
    if isinstance(value, list):
        return (encode("str", key)
                + struct.pack("<IIQ", ARRAY, number, len(value))
                + b"".join(encode(kind, v) for v in value))
    return encode("str", key) + struct.pack("<I", number) + encode(kind, value)


def padding(size):
    return bytes(-size % ALIGNMENT)


def write_gguf(path, metadata, tensors):
    """metadata: [(key, kind, value)]; tensors: {name: numpy array}."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    head += b"".join(key_value(*entry) for entry in metadata)
    offset = 0
    for name, a in tensors.items():
        kind = [k for k, t in TENSOR_TYPES.items() if t == a.dtype][0]
        head += encode("str", name) + struct.pack("<I", a.ndim)
        head += struct.pack(f"<{a.ndim}Q", *reversed(a.shape))
        head += struct.pack("<IQ", kind, offset)
        offset += a.nbytes + len(padding(a.nbytes))
    with open(path, "wb") as f:
        f.write(head + padding(len(head)))
        for a in tensors.values():
            f.write(a.tobytes() + padding(a.nbytes))


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        value = struct.unpack_from(fmt, self.data, self.at)[0]
        self.at += struct.calcsize(fmt)
        return value

    def text(self):
        size = self.take("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        return self.text() if kind == "str" else self.take(VALUE_TYPES[kind][1])


def read_gguf(path):
    """Return metadata [(key, kind, value)] and tensors {name: array}."""
    r = Reader(open(path, "rb").read())
    assert r.data[:4] == b"GGUF", path + " is no GGUF file"
    r.at = 8
    n_tensors, n_entries = r.take("<Q"), r.take("<Q")
    metadata, table = [], []
    for _ in range(n_entries):
        key, number = r.text(), r.take("<I")
        if number == ARRAY:
            kind = BY_NUMBER[r.take("<I")]
            value = [r.value(kind) for _ in range(r.take("<Q"))]
        else:
            kind = BY_NUMBER[number]
            value = r.value(kind)
        metadata.append((key, kind, value))
    for _ in range(n_tensors):
        name, n_dims = r.text(), r.take("<I")
        shape = [r.take("<Q") for _ in range(n_dims)][::-1]
        table.append((name, shape, TENSOR_TYPES[r.take("<I")], r.take("<Q")))
    start = r.at + len(padding(r.at))
    return metadata, {
        name: np.frombuffer(r.data, kind, int(np.prod(shape)),
                            start + offset).reshape(shape)
        for name, shape, kind, offset in table}
