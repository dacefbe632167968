#pragma once
#include <nanobind/nanobind.h>

void bind_routing(nanobind::module_& m);
