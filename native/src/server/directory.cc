// The directory of a server's shards, where some are in other processes: what its process answers,
// and what the others tell it.
#include <algorithm>
#include <numeric>

#include "base/world.h"
#include "server/reply.h"
#include "server/server.h"
#include "server/shards.h"

namespace drlnet {
namespace {

TableTally named(const std::string& table, const Tally& tally) {
  return {table,        tally.created, tally.drawn, tally.stock.live_items, tally.stock.draws_left,
          tally.streams};
}

void add(TableTally& sum, const TableTally& more, bool lost) {
  sum.created += more.created;
  sum.drawn += more.drawn;
  if (lost) return;
  sum.live_items += more.live_items;
  sum.draws_left += more.draws_left;
  sum.streams += more.streams;
}

}  // namespace

// What its shards of these tables mean for ours. Of a process that is lost the limiter still counts
// what was created and drawn there, but there is nothing left to draw.
Shards::News Shards::news_of(const std::vector<TableTally>& tables, bool lost) {
  News news;
  for (const TableTally& one : tables) {
    const auto shared = tables_.find(one.table);
    auto table = shared != tables_.end() ? shared->second.table.lock() : nullptr;
    if (!table) continue;  // a client opens it here first, or has dropped it
    Tally tally{one.created, one.drawn, {one.live_items, one.draws_left}, one.streams};
    if (lost) tally.stock = {};
    news.emplace_back(std::move(table), tally);
  }
  return news;
}

Shards::Member& Shards::member(uint32_t first) {
  const auto found = std::ranges::find(members_, first, &Member::first);
  if (found != members_.end() && !found->lost) return *found;
  throw Error(Status::session_lost,
              "shard " + std::to_string(first) + " has no place here any more: it was silent for " +
                  std::to_string(kSilenceNs / 1'000'000'000) + " s",
              "what it held is lost to the run; a new run takes it again");
}

uint32_t Shards::give_places(uint32_t places, uint64_t now) {
  const uint32_t elsewhere = count() - own_;
  // Compared so that no sum is beyond 32 bits: any client may ask.
  for (uint32_t first = own_; places <= elsewhere && first <= count() - places; ++first) {
    const bool taken = std::ranges::any_of(members_, [&](const Member& one) {
      return first < one.first + one.places && one.first < first + places;
    });
    if (taken) continue;
    members_.push_back({first, places, now});
    return first;
  }
  throw Error(Status::config,
              "no place for " + std::to_string(places) + " more shards: the server has " +
                  std::to_string(own_) + " of its own and waits for " + std::to_string(elsewhere) +
                  " from elsewhere, lost ones counted",
              "start it with as many as come: --set server.elsewhere=N");
}

DirectoryReply Shards::answer(const DirectoryRequest& request, uint16_t listener, uint64_t now) {
  DirectoryReply reply;
  reply.lineage = lineage_;
  reply.params_version = params_version.load(std::memory_order_relaxed);
  reply.shards.resize(count());
  const bool asks = request.places == 0 && request.addresses.empty();
  const std::string only = asks && !request.tables.empty() ? request.tables[0].table : "";
  const auto counts = [&](const std::string& table) { return only.empty() || table == only; };
  News news;
  std::unique_lock lock(mutex_);
  if (request.places > 0) {
    reply.first = give_places(request.places, now);
  } else if (!request.addresses.empty()) {
    Member& one = member(request.first);
    one.heard_ns = now;
    one.addresses = request.addresses;
    one.addresses.resize(one.places);
    one.tables = request.tables;
    news = news_of(one.tables, false);
  }
  for (const auto& [name, shared] : tables_) {
    const auto table = shared.table.lock();
    if (!table) continue;
    TableTally sum = named(name, table->own());
    for (const Member& one : members_) {
      if (one.first == request.first) continue;
      const auto theirs = std::ranges::find(one.tables, name, &TableTally::table);
      if (theirs != one.tables.end()) add(sum, *theirs, one.lost);
    }
    reply.tables.push_back(std::move(sum));
    for (uint32_t i = 0; counts(name) && i < own_; ++i) {
      reply.shards[i].streams += table->streams(i);
    }
  }
  for (uint32_t i = 0; i < own_; ++i) {
    if (listener < addresses_[i].size()) {
      reply.shards[i].address = "+" + std::to_string(i);
    }
  }
  for (const Member& one : members_) {
    const uint64_t streams =
        std::accumulate(one.tables.begin(), one.tables.end(), uint64_t{0},
                        [&](uint64_t sum, const TableTally& table) {
                          return sum + (counts(table.table) ? table.streams : 0);
                        });
    for (uint32_t i = 0; i < one.places; ++i) {
      const std::string address = i < one.addresses.size() ? one.addresses[i] : "";
      reply.shards[one.first + i] = {address, one.lost, streams / one.places};
    }
  }
  lock.unlock();
  for (const auto& [table, tally] : news) table->heard(request.first, tally);
  return reply;
}

void Shards::expire(uint64_t now, uint64_t stood) {
  std::vector<std::pair<uint32_t, News>> given_up;
  {
    const std::lock_guard lock(mutex_);
    for (Member& one : members_) {
      one.heard_ns += stood;
      if (one.lost || now < one.heard_ns + kSilenceNs) continue;
      one.lost = true;
      given_up.emplace_back(one.first, news_of(one.tables, true));
    }
    // One that has never said where it listens may come again.
    std::erase_if(members_, [](const Member& one) { return one.lost && one.addresses.empty(); });
  }
  for (const auto& [first, news] : given_up) {
    for (const auto& [table, tally] : news) table->heard(first, tally);
  }
}

std::vector<std::pair<uint32_t, std::string>> Shards::lost() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<uint32_t, std::string>> found;
  for (const Member& one : members_) {
    for (uint32_t i = 0; one.lost && i < one.places; ++i) {
      found.emplace_back(one.first + i, one.addresses[i]);
    }
  }
  return found;
}

DirectoryRequest Shards::tell() {
  DirectoryRequest request;
  request.first = first_;
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < own_; ++i) request.addresses.push_back(addresses_[first_ + i].front());
  for (const auto& [name, shared] : tables_) {
    if (const auto table = shared.table.lock()) {
      request.tables.push_back(named(name, table->own()));
    }
  }
  return request;
}

void Shards::hear(const DirectoryReply& reply) {
  params_version.store(reply.params_version, std::memory_order_relaxed);
  News news;
  {
    const std::lock_guard lock(mutex_);
    news = news_of(reply.tables, false);
  }
  for (const auto& [table, tally] : news) table->heard(0, tally);  // all others are one to us
}

uint16_t Server::directory(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  DirectoryRequest request;
  if (!decode(body, request)) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  if (!shards_ || shard_ != 0) {
    return refuse(slot, Status::config,
                  shards_ ? "the server's first shard keeps the directory, and this is another one"
                          : "this server waits for no shards from elsewhere",
                  "name the first one's address; start it with --set server.elsewhere=N");
  }
  if (peer.role < Role::learner && (request.places > 0 || !request.addresses.empty())) {
    return refuse(slot, Status::forbidden,
                  std::string("directory: the key of a ") + role_name(peer.role) +
                      " does not allow to bring shards",
                  "give --key the file of the learner, or the folder");
  }
  try {
    encode(shards_->answer(request, peer.listener, now_ns()), slot.bytes);
  } catch (const Error& error) {
    return refuse(slot, error);
  }
  return 0;
}

}  // namespace drlnet
