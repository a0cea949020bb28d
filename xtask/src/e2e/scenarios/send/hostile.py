# Writes a stream with right checksums whose records lead out of the directory: hostile.py up, link or linked.
import struct
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)

out, crc = bytearray(), 0


def put(data):
    global crc
    state = crc ^ 0xFFFFFFFF
    for byte in data:
        state = TABLE[(state ^ byte) & 255] ^ state >> 8
    crc = state ^ 0xFFFFFFFF
    out.extend(data)
    out.extend(struct.pack("<I", crc))


def text(data):
    return struct.pack("<I", len(data)) + data


def record(kind, payload):
    put(struct.pack("<II", kind, len(payload)))
    put(payload)


put(b"twinsend" + struct.pack("<I", 1))
record(1, bytes(16) + struct.pack("<QQ", 1, 1) + text(b"s") + b"\0")
if sys.argv[1] == "up":
    record(4, text(b"../outside/file") + struct.pack("<Q", 1))
else:
    record(8, text(b"link") + text(b"../outside"))
    match sys.argv[1]:
        case "link":
            record(4, text(b"link/file") + struct.pack("<Q", 1))
        case "linked":
            record(10, text(b"file") + text(b"link/kept"))
record(6, struct.pack("<Q", 0) + b"x")
sys.stdout.buffer.write(out)
