// The checksum that frames bear over a link that may alter them (Transport::may_alter_bytes):
// UDP's own is 16 bits of a sum, and absent where a device was to fill it in. It is over all other
// bytes of the frame. Threading: any thread.
#pragma once

#include <span>

#include "transport/transport.h"

namespace drlnet {

// Sets that of a frame that is filled, what it was lent included.
void seal(const TxFrame& frame);
// Whether it came as it was sealed. placed: where the bytes behind `frame` lie, if some lie
// elsewhere.
bool intact(std::span<const std::byte> frame, std::span<const std::span<std::byte>> placed = {});

// Whether it bears a checksum at all, right or wrong.
bool sealed(std::span<const std::byte> frame);

}  // namespace drlnet
