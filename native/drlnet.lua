-- Shows drlnet's frames (PROTOCOL.md) in Wireshark and tshark: a file of its plugin folder, or
--   tshark -i lo -X lua_script:native/drlnet.lua -Y drlnet
-- Frames are told by their first bytes on any UDP port. tests/test_dissector.py holds the names and
-- messages below together with PROTOCOL.md.

local KINDS = {[0] = "none", "hello", "welcome", "refuse", "request", "ack", "pending", "response", "pull", "reset", "bye",
  "keyed_hello", "cookie", "keyed_welcome"}
local SEALED = 0x80  -- of the kind
local LANES = {[0] = "control", "append", "sample", "update"}
local OPERATIONS = {
  [0] = "ping", "open_table", "lease", "resume", "release", "append", "sample", "update_priorities", "publish", "fetch",
  "stats", "report", "read_items", "new_priorities", "list_tables", "empty_table", "take_over", "drop_table",
  "ask", "answer", "follow", "put_blob", "get_blob", "directory",
}
local STATUSES = {
  [0] = "ok", "config", "transport", "protocol", "timeout", "table_mismatch", "unknown_table", "sample_expired",
  "stream_gap", "unknown_lease", "bad_priority", "server_full", "session_lost", "bad_request", "another_publisher",
  "table_dropped", "forbidden", "loading", "state_damaged",
}
local WAITS = {[0] = "none", "min_size", "samples_limit", "inserts_limit", "answer", "questions",
  "rows", "disk", "state"}

-- How messages begin, by operation.
local REQUESTS = {
  lease = "table u32, count u32",
  resume = "table u32, count u32",
  release = "table u32, count u32",
  append = "table u32, segments u32, rows u32, items u32",
  sample = "table u32, batch u32, least u32, flags u32",
  update_priorities = "table u32, count u32",
  publish = "total_bytes u64, offset u64",
  fetch = "newer_than u64",
  read_items = "table u32, count u32",
  new_priorities = "table u32, most u32, since u64",
  empty_table = "table u32",
  drop_table = "table u32",
  ask = "patience_ns u64",
  answer = "count u32, flags u32",
  follow = "table u32, most u32, key u64",
  get_blob = "newer_than u64",
  directory = "places u32, first u32, count u32",
}
local REPLIES = {
  open_table = "table u32, shard u32",
  append = "rows_stored u32, rows_ignored u32, items_created u32, items_ignored u32, expected_step u64, ordinal u32, items_refused u32, record u64, written u64",
  update_priorities = "applied u64, stale u64",
  publish = "version u64",
  fetch = "version u64, total_bytes u64",
  list_tables = "count u32",
  answer = "count u32, gone u32",
  follow = "first u64, head u64, count u32",
  get_blob = "version u64",
  put_blob = "version u64",
  directory = "lineage u64, first u32, params_version u64, count u32",
}
REPLIES.sample = "batch u32, 0 u32, item_count u64, head u64, env_steps u64, items_created u64, items_drawn u64, priority_mass f64, draws_left u64"
REPLIES.read_items = REPLIES.sample
local OPENINGS = {  -- of a session
  hello = "client u64, capabilities u64, nonce u64",
  welcome = "lineage u64, capabilities u64, nonce u64, shard u32, shards u32, incarnation u64",
}

local drlnet = Proto("drlnet", "drlnet replay protocol")
local fields = {}
local function declare(name, make, ...)
  if not fields[name] then fields[name] = make("drlnet." .. name, name, ...) end
end
-- The header: offset, bytes, name, the names of its values.
local HEADER = {
  {0, 2, "magic"}, {2, 1, "version"}, {3, 1, "kind", KINDS}, {4, 4, "connection"}, {8, 8, "packet_number"},
  {16, 4, "checksum"}, {20, 12, "tag"}, {32, 1, "lane", LANES}, {33, 1, "operation", OPERATIONS}, {34, 2, "status", STATUSES},
  {36, 2, "frame_bytes"}, {40, 8, "request"}, {48, 4, "total_bytes"}, {52, 4, "offset"}, {56, 4, "length"},
  {60, 4, "credit"},
}
local NUMBERS = {[1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32, [8] = ProtoField.uint64, [12] = ProtoField.bytes}
for _, row in ipairs(HEADER) do
  if row[4] then declare(row[3], NUMBERS[row[2]], base.DEC, row[4]) else declare(row[3], NUMBERS[row[2]]) end
end
declare("wait", ProtoField.uint16, base.DEC, WAITS)
declare("arrived", ProtoField.bytes)
declare("cause", ProtoField.string)
declare("remedy", ProtoField.string)
declare("name", ProtoField.stringz)
declare("payload", ProtoField.bytes)
declare("response_time", ProtoField.double)
declare("seal", ProtoField.bytes)
declare("sealed", ProtoField.bytes)
declare("key_id", ProtoField.uint32, base.HEX)
declare("cookie", ProtoField.bytes)

-- One field for a name, although its numbers are of 4 bytes in one message and of 8 in another.
local BODY = {u32 = {4, ProtoField.uint64}, u64 = {8, ProtoField.uint64}, f64 = {8, ProtoField.double}}
local function parts(message)
  return message:gmatch("([%w_]+) (%w+)")
end
local in_header = {}
for _, row in ipairs(HEADER) do in_header[row[3]] = true end
local function body_name(name)  -- params' version is not the frame's
  return in_header[name] and "body_" .. name or name
end
for _, messages in ipairs({REQUESTS, REPLIES, OPENINGS}) do
  for _, message in pairs(messages) do
    for name, kind in parts(message) do
      if name ~= "0" then declare(body_name(name), BODY[kind][2]) end
    end
  end
end
local listed = {}
for _, field in pairs(fields) do listed[#listed + 1] = field end
drlnet.fields = listed

local function add_parts(message, tree, payload)
  local at = 0
  for name, kind in parts(message) do
    local bytes = BODY[kind][1]
    if at + bytes > payload:len() then return end
    if name ~= "0" then tree:add_le(fields[body_name(name)], payload(at, bytes)) end
    at = at + bytes
  end
end

local function add_texts(tree, payload)
  local at = 0
  for _, name in ipairs({"cause", "remedy"}) do
    if at + 2 > payload:len() then return end
    local length = payload(at, 2):le_uint()
    if at + 2 + length > payload:len() then return end
    tree:add(fields[name], payload(at + 2, length))
    at = at + 2 + length
  end
end

local asked = {}  -- when a request's first fragment was seen first

local function add_time(tree, key, kind, pinfo)
  local now = pinfo.rel_ts
  if type(now) ~= "number" then now = now:tonumber() end  -- an NSTime in later versions
  if kind == "request" then
    asked[key] = asked[key] or now
  elseif asked[key] then
    tree:add(fields.response_time, now - asked[key]):set_generated()
  end
end

-- A frame of a session with keys: all but its first fields is encrypted.
local function dissect_sealed(frame, root)
  local tree = root:add(drlnet, frame())
  for _, row in ipairs(HEADER) do
    if row[1] < 16 and row[3] ~= "kind" then tree:add_le(fields[row[3]], frame(row[1], row[2])) end
  end
  local kind = KINDS[frame(3, 1):uint() - SEALED]
  tree:add(fields.kind, frame(3, 1), frame(3, 1):uint() - SEALED)
  tree:add(fields.seal, frame(16, 16))
  tree:add(fields.sealed, frame(32))
  tree:append_text(", sealed " .. kind)
  return frame:len(), "sealed " .. kind
end

-- One frame; how long it is.
local function dissect(frame, pinfo, root)
  if frame(3, 1):uint() >= SEALED then return dissect_sealed(frame, root) end
  local kind = KINDS[frame(3, 1):uint()]
  local operation = OPERATIONS[frame(33, 1):uint()] or "?"
  local status, length = frame(34, 2):le_uint(), frame(56, 4):le_uint()
  local joined = kind == "request" or kind == "response" or kind == "ack" or kind == "pending"
  local size = (joined and 64 + length) or (kind == "pull" and 64) or frame:len()
  size = math.min(size, frame:len())
  local tree = root:add(drlnet, frame(0, size))
  for _, row in ipairs(HEADER) do
    local field = (row[3] == "status" and kind == "pending") and fields.wait or fields[row[3]]
    tree:add_le(field, frame(row[1], row[2]))
  end
  local about = kind
  if kind == "request" or kind == "response" or kind == "pull" or kind == "ack" or kind == "pending" then
    local offset, total = frame(52, 4):le_uint(), frame(48, 4):le_uint()
    about = string.format("%s %s %s", operation, kind, tostring(frame(40, 8):le_uint64()))
    if length < total then about = string.format("%s [%d, %d) of %d", about, offset, offset + length, total) end
    if status ~= 0 then about = about .. " " .. ((kind == "pending" and WAITS or STATUSES)[status] or status) end
    local key = string.format("%d/%d/%s", frame(4, 4):le_uint(), frame(32, 1):uint(), tostring(frame(40, 8):le_uint64()))
    if offset == 0 and (kind == "request" or kind == "response") then add_time(tree, key, kind, pinfo) end
  end
  tree:append_text(", " .. about)
  if size > 64 then
    local payload = frame(64, size - 64):tvb()
    local first = frame(52, 4):le_uint() == 0
    if kind == "ack" then
      tree:add(fields.arrived, payload())
    elseif kind == "refuse" or (kind == "response" and status ~= 0 and operation ~= "append") then
      add_texts(tree, payload)
    elseif kind == "cookie" then
      tree:add(fields.cookie, payload(0, 16))
    elseif kind == "keyed_hello" then
      tree:add_le(fields.key_id, payload(0, 4))
      tree:add(fields.cookie, payload(8, 16))
    elseif OPENINGS[kind] then
      add_parts(OPENINGS[kind], tree, payload)
      if kind == "hello" and payload:len() >= 112 then tree:add(fields.name, payload(72, 40)) end
    else
      local message = (kind == "request" and REQUESTS or REPLIES)[operation]
      if first and message then add_parts(message, tree, payload) end
      tree:add(fields.payload, payload())
    end
  end
  return size, about
end

local function is_ours(frame)
  return frame:len() >= 64 and frame(0, 2):string() == "DL" and KINDS[frame(3, 1):uint() % SEALED] ~= nil
end

-- A capture on the sending host may show frames that the kernel cuts apart later.
function drlnet.dissector(datagram, pinfo, root)
  local at, abouts = 0, {}
  while at + 64 <= datagram:len() and is_ours(datagram(at):tvb()) do
    local size, about = dissect(datagram(at):tvb(), pinfo, root)
    at, abouts[#abouts + 1] = at + size, about
  end
  if at == 0 then return 0 end
  pinfo.cols.protocol = "drlnet"
  pinfo.cols.info = table.concat(abouts, "; ")
  return at
end

function drlnet.init()
  asked = {}
end

drlnet:register_heuristic("udp", function(datagram, pinfo, root)
  if not is_ours(datagram) then return false end
  drlnet.dissector(datagram, pinfo, root)
  return true
end)
