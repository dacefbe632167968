// Paths of flows that are spread over all shortest ways at once: at every node the traffic splits among the next hops, in
// proportion to their weights (equal ones: packet spraying; rates: what adaptive routing tends to).
//
// The part between the first and the last switch is the same for all pairs with these switches and is worked out once. Links
// that carry the same share of the same parts, and weigh the same, are alike in every respect: with `bundle` one of them stands
// for all (its shares are their sums, so that its capacity must be their sum too).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "routing/routes.hpp"

namespace railwright::flow {

struct SprayPaths {
    std::vector<std::int64_t> offset;      // pairs + 1
    std::vector<std::int32_t> link;
    std::vector<double> share;
    std::vector<std::int64_t> unreachable;  // pairs
    std::vector<std::int32_t> stands_for;   // per link of the network: the link that stands for it (mostly itself)
};

SprayPaths spray(const NetworkView& network, Routes& routes, const double* weight, const std::int32_t* src,
                 const std::int32_t* dst, std::size_t pairs, bool bundle);

}  // namespace railwright::flow
