// Frames and messages built by hand: valid ones, from which mutation starts.
#pragma once

#include "fuzz.h"
#include "replay/streams.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet::fuzz {

// Two columns, an item of n = 2 with a stack of 2, room for 64 rows.
TableSpec small_table();
// An append to that table: `rows` rows of one stream and an item at each. Epoch 1, token 0.
Bytes append_body(uint32_t ordinal, uint64_t first_step, uint32_t rows);

// A token cannot be guessed, so 0 in an append's segment stands for the right one.
void insert_tokens(std::span<std::byte> body, std::span<const Lease> leases);

Bytes hello_frame(uint64_t client);
Bytes request_frame(Operation operation, uint64_t request, std::span<const std::byte> body);
Bytes pull_frame(Lane lane, uint64_t request, uint32_t offset, uint32_t length);

// Frames in one input, each behind a u16 of its length and a byte of Fix flags.
enum Fix : uint8_t { kFixHeader = 1, kFixLength = 2 };
void add_frame(Bytes& input, std::span<const std::byte> frame, uint8_t fix);

// Takes the next frame off the input and, as its flags say, makes magic, version and connection
// (kFixHeader) and the length (kFixLength) right, without which few inputs get far.
Bytes take_frame(std::span<const std::byte>& input, uint32_t connection);

void send_frame(Transport& transport, const Endpoint& to, std::span<const std::byte> frame);

}  // namespace drlnet::fuzz
