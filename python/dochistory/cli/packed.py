"""Compressed input without a name: what it is packed with is seen from its first bytes."""

import re

import pyarrow as pa

_MAGIC = (
    (rb"\x1f\x8b\x08", "gzip"),
    (rb"\x28\xb5\x2f\xfd", "zstd"),
    # The letters alone could begin a CSV file; the first block of the archive, or its end, follows.
    (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "bz2"),
    (rb"\x04\x22\x4d\x18", "lz4"),
)


def unpacked(content: pa.Buffer) -> pa.Buffer:
    """The content, unpacked if it is compressed by gzip, zstd, bz2 or as frames of lz4.

    Raises:
        OSError: it is damaged, or cut off.
    """
    start = content.slice(0, min(16, content.size)).to_pybytes()
    packing = next((name for magic, name in _MAGIC if re.match(magic, start)), None)
    if packing is None:
        return content
    with pa.CompressedInputStream(pa.BufferReader(content), packing) as stream:
        return stream.read_buffer()
