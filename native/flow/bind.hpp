#pragma once
#include <nanobind/nanobind.h>

void bind_flow(nanobind::module_& m);
