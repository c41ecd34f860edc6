#include "base/error.h"

namespace drlnet {

std::string_view status_name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::config:
      return "config";
    case Status::transport:
      return "transport";
    case Status::protocol:
      return "protocol";
    case Status::timeout:
      return "timeout";
    case Status::table_mismatch:
      return "table_mismatch";
    case Status::unknown_table:
      return "unknown_table";
    case Status::sample_expired:
      return "sample_expired";
    case Status::stream_gap:
      return "stream_gap";
    case Status::unknown_lease:
      return "unknown_lease";
    case Status::bad_priority:
      return "bad_priority";
    case Status::server_full:
      return "server_full";
    case Status::session_lost:
      return "session_lost";
    case Status::another_publisher:
      return "another_publisher";
    case Status::table_dropped:
      return "table_dropped";
    case Status::bad_request:
      return "bad_request";
    case Status::forbidden:
      return "forbidden";
    case Status::loading:
      return "loading";
    case Status::state_damaged:
      return "state_damaged";
  }
  return "unknown";
}

}  // namespace drlnet
