// Rings whose links nobody else ever uses: what their sends get is known beforehand, and their course is a recurrence.
//
// In such a group every operation waits for the repetition before of one other operation of the group (lag 1), all have the
// same number of repetitions and one flow, and no other flow of the problem crosses their links. Then repetition k of
// operation i leaves at
//     left(i, k) = max(left(i, k - 1), left(p, k - 1) + latency(p)) + bytes(i) / rate(i),   p = the operation it waits for,
// which is evaluated row by row instead of event by event (the (max, +) algebra of event graphs: Baccelli, Cohen, Olsder and
// Quadrat, Synchronization and Linearity, 1992).
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flow/schedule.hpp"

namespace railwright::flow {

class PrivateRings {
  public:
    explicit PrivateRings(const Problem& problem);

    // The group of an operation, or -1.
    std::int32_t group_of(std::uint32_t op) const { return group_.empty() ? -1 : group_[op]; }

    // Operation `op` may start at `now`; true for the last one of its group.
    bool ready(std::uint32_t op, double now);

    // Operations of a group that is ready, and when the last repetition of each arrives.
    const std::vector<std::uint32_t>& members(std::int32_t group) const { return members_[group]; }
    std::vector<double> finish(std::int32_t group, const std::function<void()>& poll) const;

    // The link that bounds the rate of an operation's flow (-1: its own cap), and its share of the flow.
    std::pair<std::int32_t, double> bound(std::uint32_t op) const;

  private:
    double rate(std::uint32_t op) const;

    const Problem& in_;
    std::vector<std::int32_t> group_;
    std::vector<std::uint32_t> before_;  // the operation that each one waits for
    std::vector<std::vector<std::uint32_t>> members_;
    std::vector<std::uint32_t> missing_;  // per group: operations that cannot start yet
    std::vector<double> ready_;           // per operation
};

}  // namespace railwright::flow
