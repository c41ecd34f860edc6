#include "base/error.h"
#include "bindings.h"
#include "held.h"

namespace drlnet {

// An Error becomes the class of drlnet/errors.py that its number names.
void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      try {
        const nb::object raised = nb::module_::import_("drlnet.errors")
                                      .attr("from_status")(static_cast<int>(error.status()),
                                                           error.cause(), error.remedy());
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
      } catch (nb::python_error& interrupted) {
        interrupted.restore();  // a signal came meanwhile: its handler's error is the caller's
      }
    }
  });
}

void check_signals() {
  const Locked locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace drlnet
