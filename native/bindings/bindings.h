#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"
#include "session/keys/keys.h"

namespace drlnet {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_specs(nb::module_& module);
void bind_server(nb::module_& module);
void bind_state(nb::module_& module);
void bind_batches(nb::module_& module);
void bind_client(nb::module_& module);
void bind_adders(nb::module_& module);

// That number of keys, one behind the other. Throws Error(config) for another number of bytes.
inline std::vector<Key> keys_of(const nb::bytes& bytes, size_t count) {
  if (bytes.size() != count * kKeyBytes) {
    throw Error(Status::config, "keys of " + std::to_string(bytes.size()) + " bytes",
                "give " + std::to_string(count) + " keys of 32 bytes each");
  }
  std::vector<Key> keys(count);
  std::memcpy(keys.data(), bytes.data(), bytes.size());
  return keys;
}

// The client's secret and the server's public key; of nothing: none.
inline std::optional<ClientKey> client_key_of(const nb::bytes& bytes) {
  if (bytes.size() == 0) return std::nullopt;
  const std::vector<Key> keys = keys_of(bytes, 2);
  return ClientKey{keys[0], keys[1]};
}

// {"dotted.name": int | float | str | HistogramReading}
nb::dict to_dict(const Metrics& metrics);

// While waiting without the GIL: raises KeyboardInterrupt when a signal handler asks for it.
void check_signals();

// The memory of a contiguous array, for as long as this holds it. An Array says more of what it
// gets, but to make one takes longer than most calls have to do otherwise.
class Memory {
 public:
  explicit Memory(nb::handle array, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~Memory() { PyBuffer_Release(&view_); }
  Memory(Memory&& other) noexcept : view_(std::exchange(other.view_, {})) {}

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

// A numpy array that owns the values.
template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

}  // namespace drlnet
