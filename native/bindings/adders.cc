#include <nanobind/stl/optional.h>

#include "adders/n_step_errors.h"
#include "bindings.h"

namespace drlnet {

void bind_adders(nb::module_& module) {
  nb::class_<NStepErrors>(module, "NStepErrors")
      .def(nb::init<uint32_t, uint32_t, double, std::optional<float>>(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg().none())
      .def(
          "push",
          [](NStepErrors& errors, nb::handle reward, nb::handle discount, nb::handle action,
             nb::handle q, nb::handle last, nb::handle steps, nb::handle mask) {
            const Memory rewards(reward), discounts(discount), actions(action), values(q);
            const Memory lasts(last), numbers(steps);
            ActedRows rows{.reward = rewards.as<const float>(),
                           .discount = discounts.as<const float>(),
                           .q = values.as<const float>(),
                           .action = actions.as<const int32_t>(),
                           .step = numbers.as<const int64_t>(),
                           .last = lasts.as<const uint8_t>(),
                           .present = {}};
            std::optional<Memory> present;
            if (!mask.is_none()) rows.present = present.emplace(mask).as<const uint8_t>();
            ErrorItems items = errors.push(rows);
            return std::make_tuple(array_of(std::move(items.streams)),
                                   array_of(std::move(items.steps)),
                                   array_of(std::move(items.priorities)));
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace drlnet
