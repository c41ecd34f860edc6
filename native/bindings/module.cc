// The extension module. No logic: types are converted, the GIL is released, errors become
// those of drlnet/errors.py by their number.
#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "The native core of drlnet. An implementation detail: import drlnet instead.";
  drlnet::bind_errors(module);
  drlnet::bind_specs(module);
  drlnet::bind_server(module);
  drlnet::bind_client(module);
  drlnet::bind_adders(module);
}
