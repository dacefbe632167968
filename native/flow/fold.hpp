// Finds operations that behave alike and links that are loaded alike, and makes the small problem that stands for all.
//
// The classes are the coarsest equitable partition of the graph of operations, links and waits (colour refinement): all
// operations of a class have the same data, the same number of hops (by share) over links of each class, and wait for the same
// numbers of operations of each class with each lag; all links of a class have the same capacity and carry the same number
// (by share) of flows of each class. Then all members of a class do the same at the same times: progressive filling,
// applied to the members of a class, sees the same numbers at every step. So one operation per class, on one link per class
// with the share "flows of the class per link", has the times of all.
#pragma once
#include <cstdint>
#include <vector>

#include "flow/schedule.hpp"

namespace railwright::flow {

struct Folding {
    bool useful = false;
    std::vector<std::uint32_t> op_class, link_class;  // per operation, per link; links without a flow have class NO_CLASS
    std::uint32_t op_classes = 0, link_classes = 0;
    static constexpr std::uint32_t NO_CLASS = 0xffffffff;
};

// Classes of `problem`; not `useful` when there are more than half as many classes as operations.
Folding fold(const Problem& problem);

// One operation and one link per class.
Problem quotient(const Problem& problem, const Folding& folding);

}  // namespace railwright::flow
