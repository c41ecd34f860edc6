"""native/PROTOCOL.md says what the code does: its tables and numbers are those of the headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drlnet.errors import _BY_STATUS

NATIVE = Path(__file__).resolve().parents[1] / "native"
DOCUMENT = (NATIVE / "PROTOCOL.md").read_text(encoding="utf-8")
FLAT = " ".join(DOCUMENT.split())
BYTES = {"FrameKind": 1, "Lane": 1, "Operation": 1} | {f"uint{8 * n}_t": n for n in (1, 2, 4, 8)}


def source(path: str) -> str:
    return (NATIVE / "src" / path).read_text(encoding="utf-8")


def enumerators(path: str, name: str) -> dict[str, int]:
    """The members of an enum class, by name."""
    body = re.search(rf"enum class {name} : \w+ \{{(.*?)\}};", source(path), re.DOTALL)
    assert body
    return {word: int(value) for word, value in re.findall(r"(\w+) = (\d+)", body[1])}


def listed(words: str) -> dict[str, int]:
    """ "0 ok, 1 config" as names and numbers."""
    return {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", words)}


def words_behind(beginning: str, end: str) -> str:
    return FLAT.split(beginning, 1)[1].split(end, 1)[0]


def test_fields_of_the_frame() -> None:
    body = source("wire/frame.h").split("struct FrameHeader {", 1)[1].split("\n};", 1)[0]
    fields, offset = {}, 0
    for kind, name, count in re.findall(r"^  (\w+) (\w+)(?:\[(\d+)\])?[ ={]", body, re.MULTILINE):
        size = BYTES[kind] * int(count or 1)
        fields[name] = (offset, size)
        offset += size
    assert offset == 64
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", DOCUMENT, re.MULTILINE)
    assert {name: (int(at), int(size)) for at, size, name in rows} == fields


def test_kinds_of_frames() -> None:
    rows = re.findall(r"^\| (\d+) (\w+) \| (?:client|server) \|", DOCUMENT, re.MULTILINE)
    assert {name: int(number) for number, name in rows} == enumerators("wire/frame.h", "FrameKind")


def test_operations_and_their_lanes() -> None:
    rows = re.findall(r"^\| (\d+) (\w+) \| (\w+) \| [^|]+ \| [^|]+ \|$", DOCUMENT, re.MULTILINE)
    declared = re.findall(
        r"^DRLNET_OPERATION\((\w+), (\w+), \w+\)", source("wire/operations.def"), re.M
    )
    assert [(name, lane) for _, name, lane in sorted(rows, key=lambda row: int(row[0]))] == declared
    assert [int(number) for number, _, _ in sorted(rows, key=lambda row: int(row[0]))] == [
        *range(len(rows))
    ]


def test_roles_may_do_what_the_table_says() -> None:
    declared = re.findall(
        r"^DRLNET_OPERATION\((\w+), \w+, (\w+)\)", source("wire/operations.def"), re.M
    )
    written = {
        role: set(re.findall(r"\w+", words_behind(f"{role} (", ")"))) - {"these", "and"}
        for role in ("viewer", "actor")
    }
    for role, operations in written.items():
        assert operations == {name for name, least in declared if least == role}


def test_numbers_that_travel() -> None:
    statuses = listed(words_behind("A status is ", "(`src/base"))
    assert statuses == enumerators("base/error.h", "Status")
    assert [*_BY_STATUS] == [number for number in statuses.values() if number]
    waits = enumerators("spec/wait.h", "Wait")
    assert listed(words_behind("the request waits; status: ", "|")) | {"none": 0} == waits
    lanes = listed(words_behind("| lane | ", "|"))
    assert lanes == enumerators("wire/frame.h", "Lane")
    spec = "spec/table_spec.h"
    assert listed(words_behind("pad u8 (", ")")) == enumerators(spec, "Pad")
    assert listed(words_behind("align u8 (", ")")) == enumerators(spec, "Align")
    assert listed(words_behind("boundary u8 (", ")")) == enumerators(spec, "Boundary")
    types = listed(words_behind("type u8 (", ")"))
    assert [*types.values()] == [*enumerators(spec, "DataType").values()]
    names = source("spec/table_spec.cc").split("kTypes[kDataTypeCount] = ", 1)[1].split(";", 1)[0]
    assert [*types] == re.findall(r'"(\w+)"', names)


@pytest.mark.parametrize(
    ("constant", "path", "value", "words"),
    [
        ("kMinFrameBytes", "wire/frame.h", "1232", "at least 1,232"),
        ("kMaxRequestBytes", "wire/frame.h", "256 * 1024", "at most 262,144 bytes"),
        ("kMaxSampleRequestBytes", "wire/frame.h", "64 * 1024", "one of the sample lane 65,536"),
        ("kLaneWindow", "wire/frame.h", "{4, 8, 32, 8}", "4 (control), 8 (append), 32 (sample)"),
        ("kFramesApart", "wire/frame.h", "1", 'is "frames apart"'),
        ("kMaxSampleBytes", "wire/messages.h", "uint32_t{2} << 30", "2 GiB at most"),
        ("kMaxReplyBytes", "wire/messages.h", "64 << 20", "all other replies 64 MiB"),
        ("kMaxErrorBytes", "wire/messages.h", "4096", "not ok 4,096 bytes"),
        ("kMaxChanges", "wire/messages.h", "65536", "`most` or 65,536 changes"),
        ("kMaxReportReadings", "wire/messages.h", "200", "at most 200 readings in 65,536 bytes"),
        ("kMaxFrameBytes", "transport/transport.h", "65'472", "65,472 at most"),
        ("kJumboFrameBytes", "transport/transport.h", "8968", "of 8,968, 8,952, 1,472,"),
        ("kMinFrameCharge", "transport/transport.h", "1024", "max(its bytes, 1,024)"),
        ("kSilenceNs", "session/server/sessions.h", "60'000'000'000", "after 60 s of silence"),
        ("kPackets", "session/keys/sealing.h", "2048", "or is 2,048 or more below"),
        ("kPacketBits", "session/keys/sealing.h", "22", "after each 2^22 packet numbers"),
        ("kHandshakes", "session/server/doorkeeper.h", "4096", "4,096 first messages a second"),
        ("kTurnBytes", "session/server/sessions.h", "56 * 1024", "turns of 56 KiB"),
        ("kAppendPauseNs", "session/server/sessions.h", "100'000", "once in 100 us"),
        ("kMinTimeoutNs", "session/client/connection.cc", "20'000'000", "at least 20 ms"),
        ("kMaxTimeoutNs", "session/client/connection.cc", "1'000'000'000", "up to 1 s"),
        ("kKeepAliveNs", "session/client/connection.cc", "1'000'000'000", "asks every second"),
    ],
)  # fmt: skip
def test_limits(constant: str, path: str, value: str, words: str) -> None:
    text = source(path).replace("{4, 8, 32, 8}", "{4,8,32,8}")  # no comma of it ends the value
    found = re.search(rf"\b{constant} = (.*?)[,;](?: |$)", text, re.MULTILINE)
    assert found
    assert found[1].replace(" ", "") == value.replace(" ", "")
    assert words in FLAT
