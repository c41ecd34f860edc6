#include "base/printable.h"

#include <cstdint>
#include <cstdio>

namespace drlnet {
namespace {

// The character that begins the text and its length, as far as it is one that we escape; else 0.
struct Hidden {
  uint32_t code = 0;
  size_t bytes = 0;
};

Hidden hidden(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  if (at(0) < 0x20 || at(0) == 0x7F) return {at(0), 1};
  if (at(0) == 0xC2 && at(1) >= 0x80 && at(1) <= 0x9F) return {at(1), 2};
  if (at(0) == 0xD8 && at(1) == 0x9C) return {0x061C, 2};
  if (at(0) != 0xE2 || at(1) < 0x80 || at(1) > 0x81 || at(2) < 0x80 || at(2) > 0xBF) return {};
  const uint32_t code = 0x2000 + ((at(1) & 0x3F) << 6) + (at(2) & 0x3F);
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return turns ? Hidden{code, 3} : Hidden{};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = hidden(text);
    if (bytes == 0) {
      shown += text.front();
      text.remove_prefix(1);
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
    shown += escape;
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace drlnet
