// The Python face of the native core. Every engine binds its own functions in its own directory; this file only calls them.
#include <nanobind/nanobind.h>

#include "flow/bind.hpp"
#include "packet/bind.hpp"
#include "routing/bind.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
    m.doc() = "railwright's compiled engines";
    bind_routing(m);
    bind_packet(m);
    bind_flow(m);
}
