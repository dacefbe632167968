// Runs a graph of operations over max-min fair flows: who starts when, what each transfer gets, when it arrives.
//
// An operation is a timed step (compute, reduce, barrier) or a send of one or more flows; with `repeat` it runs that many times
// in sequence. A repetition starts when the previous one has left the sender and every wait is met, as messages follow each
// other on a connection; it is finished when the last of its flows has arrived (`latency` after its last byte left). A wait has
// a lag: `WHOLE` = the other operation's last repetition, 0 = the repetition with the same number, 1 = the one before, `LEFT` =
// the last repetition has left the sender and `op_handover` has passed.
//
// When every running operation is a repetition and the state (who is where, what is left, what is under way) recurs, the run
// repeats itself until an operation ends or an appointed event comes: those cycles are skipped by arithmetic. Rings that share
// no link with anything are not run event by event at all (`private_rings.hpp`).
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flow/sharing.hpp"

namespace railwright::flow {

constexpr std::int8_t WHOLE = -1;
constexpr std::int8_t LEFT = -2;
constexpr std::uint8_t SEND = 0;
constexpr std::uint8_t TIMED = 1;

// Everything a run needs, as flat arrays that outlive it. Times in microseconds, rates in bytes per microsecond.
struct Problem {
    std::vector<double> capacity;  // per directed link

    std::vector<std::int64_t> path_offset;  // paths + 1
    std::vector<std::int32_t> path_link;    // links of one path are distinct
    std::vector<double> path_share;

    std::vector<std::uint8_t> op_kind;
    std::vector<double> op_duration;  // of a timed repetition
    std::vector<double> op_start;     // not before
    std::vector<double> op_weight, op_cap;
    std::vector<double> op_handover;  // see LEFT
    std::vector<std::uint8_t> op_priority;
    std::vector<std::uint32_t> op_repeat;
    std::vector<std::int64_t> flow_offset;  // ops + 1; a timed operation has no flow

    std::vector<std::int32_t> flow_path;
    std::vector<double> flow_bytes;  // per repetition
    std::vector<double> flow_latency;

    std::vector<std::int64_t> wait_offset;  // ops + 1
    std::vector<std::uint32_t> wait_op;
    std::vector<std::int8_t> wait_lag;

    // What happens at a given time, in order of time: a link gets a capacity, a flow gets a path (-1: none).
    std::vector<double> link_change_time;
    std::vector<std::int32_t> link_change_link;
    std::vector<double> link_change_capacity;
    std::vector<double> reroute_time;
    std::vector<std::uint32_t> reroute_flow;
    std::vector<std::int32_t> reroute_path;
    std::vector<double> reroute_latency;

    std::size_t ops() const { return op_kind.size(); }
    std::size_t links() const { return capacity.size(); }
    std::size_t flows() const { return flow_path.size(); }
};

struct Outcome {
    std::vector<double> start, finish;         // per operation: first repetition's start, last arrival; NaN = never
    std::vector<double> link_bytes;            // per link
    std::vector<double> link_limited_bytes;    // per link: bytes of flows while this link held them back
    double capped_bytes = 0;                   // bytes of flows held back by their own cap
    std::uint64_t instants = 0, repetitions = 0, skipped = 0;
    double audit = 0;
    Sharing::Work work;
};

// `poll` is called every few thousand instants and may throw to stop the run. With `audit_every` k > 0 the rates of every k-th
// instant are compared with a full computation.
Outcome run(const Problem& problem, std::uint64_t audit_every, const std::function<void()>& poll);

}  // namespace railwright::flow
