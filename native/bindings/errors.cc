#include "base/error.h"

#include "bindings.h"

namespace drlnet {

void bind_errors(nb::module_& module) {
  static nb::handle native_error;  // lives as long as the module, which holds a reference
  nb::object type = nb::steal(PyErr_NewException("drlnet._native.NativeError", nullptr, nullptr));
  module.attr("NativeError") = type;
  native_error = type;
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      nb::tuple arguments =
          nb::make_tuple(static_cast<int>(error.status()), error.cause(), error.remedy());
      PyErr_SetObject(native_error.ptr(), arguments.ptr());
    }
  });
}

void check_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace drlnet
