// A drawn batch's bytes out of the rows, the same at the server and in a client that mirrors them:
// any range of them, as often as it is asked for. Nothing allocates. Threading: that of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "rows/columns.h"
#include "rows/drawn.h"
#include "rows/row_copy.h"
#include "spec/sample_layout.h"

namespace drlnet {

// Writes bytes [offset, offset + out.size()) of a window.
using WriteWindow = FunctionRef<bool(const Window&, uint64_t offset, std::span<std::byte> out)>;

// Writes bytes [offset, offset + out.size()) of the batch as `layout` has it. False when
// write_window() says so. With loans, long pieces are lent: rows, and what `drawn` holds.
bool write_batch(const SampleLayout& layout, const DrawnBatch& drawn, uint64_t offset,
                 std::span<std::byte> out, RowSink sink, WriteWindow write_window);

// Writes those bytes of a window whose rows drawn.slots name. O(rows touched).
void write_traced(const DrawnBatch& drawn, const Reach& reach, const Window& window,
                  const RowColumn& column, uint64_t offset, std::span<std::byte> out, RowSink sink);

}  // namespace drlnet
