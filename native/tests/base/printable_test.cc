#include "base/printable.h"

#include <doctest/doctest.h>

using drlnet::printable;

TEST_CASE("text that a terminal shows as it is stays") {
  for (const std::string text : {"", "learner~2", "Grüße, 世界 \xF0\x9F\x98\x80", "a b_c.d"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("what steers a terminal is escaped") {
  CHECK(printable("\x1b[2J\n\x7f") == "\\x1b[2J\\x0a\\x7f");
  CHECK(printable("\xC2\x9B\x32J\xC2\xA0") == "\\x9b2J\xC2\xA0");  // no-break space stays
  CHECK(printable("\xE2\x80\xAE"
                  "exe\xE2\x81\xA6\xE2\x80\x8F") == "\\u202eexe\\u2066\\u200f");
  CHECK(printable("\xD8\x9C\xE2\x80\xA8") == "\\u061c\\u2028");
}

TEST_CASE("bytes outside UTF-8, and characters cut short, stay") {
  for (const std::string text : {"\xC2", "\xE2\x80", "\xE2", "\x9B", "\xFF\xE2\x80"}) {
    CHECK(printable(text) == text);
  }
}
