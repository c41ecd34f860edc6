// The extension module. No logic: types are converted, the GIL is released, errors become
// those of drlnet/errors.py by their number.
#include "bindings.h"
#include "held.h"

NB_MODULE(_native, module) {
  module.doc() = "The native core of drlnet. An implementation detail: import drlnet instead.";
#ifdef DRLNET_COMMIT
  module.attr("build_commit") = DRLNET_COMMIT;
#else
  module.attr("build_commit") = nanobind::none();
#endif
  // A daemon thread that is in a call when the interpreter ends keeps what it uses.
  nanobind::set_leak_warnings(false);
  drlnet::count_forks();
  drlnet::bind_errors(module);
  drlnet::bind_specs(module);
  drlnet::bind_server(module);
  drlnet::bind_state(module);
  drlnet::bind_batches(module);
  drlnet::bind_client(module);
  drlnet::bind_adders(module);
}
