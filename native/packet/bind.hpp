#pragma once
#include <nanobind/nanobind.h>

void bind_packet(nanobind::module_& m);
