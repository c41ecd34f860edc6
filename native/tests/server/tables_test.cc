#include "server/tables.h"

#include <doctest/doctest.h>

namespace drlnet::test {
namespace {

OpenTable named(const std::string& name) {
  OpenTable open;
  open.asked.name = name;
  return open;
}

}  // namespace

TEST_CASE("a number names one table, and says which one it was") {
  Tables tables;
  CHECK(tables.why_none(0).status() == Status::unknown_table);
  const uint32_t first = tables.add(named("a")).number;
  const uint32_t second = tables.add(named("b")).number;
  CHECK(tables.find("a")->number == first);
  tables.drop(first);
  CHECK(tables.find(first) == nullptr);
  CHECK(tables.find("a") == nullptr);
  CHECK(tables.why_none(first).status() == Status::table_dropped);
  CHECK(tables.why_none(first).cause() == "table 'a' was dropped");
  CHECK(tables.find(second)->asked.name == "b");
  const uint32_t again = tables.add(named("a")).number;
  CHECK(again != first);
  CHECK(again != second);
  CHECK(tables.find(first) == nullptr);
  CHECK(tables.find(again)->asked.name == "a");
  std::vector<std::string> order;
  for (const OpenTable& open : tables) order.push_back(open.asked.name);
  CHECK(order == std::vector<std::string>{"b", "a"});
}

TEST_CASE("tables may come and go without end, and so may names") {
  Tables tables;
  for (size_t i = 0; i < Tables::kMost - 1; ++i) tables.add(named("kept"));
  CHECK(tables.size() < Tables::kMost);
  uint32_t first = 0, last = 0;
  for (size_t i = 0; i < 3 * Tables::kMost; ++i) {
    last = tables.add(named("passing")).number;
    CHECK(tables.size() == Tables::kMost);
    if (i == 0) first = last;
    tables.drop(last);
  }
  CHECK(tables.why_none(last).cause() == "table 'passing' was dropped");
  const Error forgotten = tables.why_none(first);
  CHECK(forgotten.status() == Status::table_dropped);
  CHECK(forgotten.cause() == "table '" + std::to_string(first) + "' was dropped");
  CHECK(tables.why_none(last + 1).status() == Status::unknown_table);
}

}  // namespace drlnet::test
