// CRC-32C (Castagnoli), as iSCSI and ext4 have it: finds what a disk or a link has altered.
// Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace drlnet {

// crc: of the bytes before these, 0 where they are the first.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
// The same without the processor's instruction: what machines that lack it run.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace drlnet
