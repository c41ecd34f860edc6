// Texts of strangers, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace drlnet {

// The same text with escapes in place of what would change how a terminal shows the rest: control
// characters (\x1b; those of Latin-1 as well), and the marks that turn the direction of writing
// (\u202e) or break lines. Other bytes stay, whether they are UTF-8 or not.
std::string printable(std::string_view text);

}  // namespace drlnet
