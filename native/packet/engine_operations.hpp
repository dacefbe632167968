// Operations: start when what they wait for is done and their time has come, and let go of those that wait for them.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

// Nothing holds the operation any more: begin now, or at its start time, or after the delay that a send has before it.
inline void Engine::release_op(std::uint32_t op) {
    Ps due = std::max(now, static_cast<Ps>(ops_.start_ps[op]));
    if (ops_.kind[op] == SEND) due += ops_.duration_ps[op];
    if (due > now) {
        push(due, OPERATION, op);
    } else {
        begin(op);
    }
}

// An OPERATION event means "begin" the first time, and for a computation "the end" the second time.
inline void Engine::begin(std::uint32_t op) {
    OpState& state = op_[op];
    if (state.start >= 0 && ops_.kind[op] != SEND) {
        finish_op(op);
        return;
    }
    if (state.start < 0) state.start = now;
    if (ops_.kind[op] == BARRIER) {
        finish_op(op);
        return;
    }
    if (ops_.kind[op] != SEND) {
        const Ps length = ops_.duration_ps[op] * static_cast<Ps>(state.repeats_left);
        if (length > 0) {
            push(now + length, OPERATION, op);
        } else {
            finish_op(op);
        }
        return;
    }
    const std::int64_t bytes = ops_.bytes[op];
    if (bytes <= 0 || ops_.src[op] == ops_.dst[op]) {
        finish_op(op);
        return;
    }
    const ClassOptions& options = o_.classes[ops_.cls[op]];
    const std::int64_t pairs = std::clamp<std::int64_t>(options.queue_pairs, 1, (bytes + o_.payload_bytes - 1) / o_.payload_bytes);
    state.flows_left = static_cast<std::uint16_t>(pairs);
    for (std::int64_t k = 0; k < pairs; ++k)
        start_flow(op, bytes * (k + 1) / pairs - bytes * k / pairs, static_cast<std::uint32_t>(k));
}

inline void Engine::start_flow(std::uint32_t op, std::int64_t bytes, std::uint32_t queue_pair) {
    const std::uint8_t cls = ops_.cls[op];
    auto& free = free_flows_[cls];
    if (free.empty()) {
        free.push_back(static_cast<std::uint32_t>(senders_.size()));
        senders_.emplace_back();
        std::memset(static_cast<void*>(&senders_.back()), 0, sizeof(Sender));
        receivers_.emplace_back();
    }
    const std::uint32_t flow = free.back();
    free.pop_back();
    Sender& s = senders_[flow];
    Receiver& r = receivers_[flow];
    const Ps timer_at = s.timer_at;
    std::memset(static_cast<void*>(&s), 0, sizeof(Sender));
    r = Receiver{};
    s.timer_at = timer_at;
    s.op = op;
    s.cls = r.cls = cls;
    s.src = ops_.src[op];
    s.dst = ops_.dst[op];
    s.holes = r.have = r.nack_for = NONE;
    const auto packets = static_cast<std::uint32_t>((bytes + o_.payload_bytes - 1) / o_.payload_bytes);
    s.end = r.end = packets;
    s.last_payload = static_cast<std::uint16_t>(bytes - static_cast<std::int64_t>(packets - 1) * o_.payload_bytes);
    const std::uint32_t entropy = ops_.entropy[op] + queue_pair * 0x9e3779b1u;
    if (!store_paths(flow, op, entropy, bytes)) {
        s.op = NONE;
        free.push_back(flow);
        op_[op].failed = true;
        ++counters.unreachable;
        done_flows_of_.push_back(op);
        return;
    }
    counters.delivered_bytes += static_cast<std::uint64_t>(bytes);
    s.open = true;
    s.rate_bps = s.line_bps;
    s.window_bytes = o_.classes[cls].window_bytes;
    s.next_send = now;
    s.last_send = now;
    controls_[cls]->start(s, now, base_round_trip(forth_));
    wake(flow);
}

inline void Engine::finish_op(std::uint32_t op) {
    OpState& state = op_[op];
    state.finish = now;
    --unfinished_;
    for (std::uint32_t k = dependents_.offset[op]; k < dependents_.offset[op + 1]; ++k) {
        const std::uint32_t next = dependents_.op[k];
        if (--op_[next].waits_for == 0) release_op(next);
    }
}

// After an event: operations whose flows have all ended.
inline void Engine::settle() {
    while (!done_flows_of_.empty()) {
        const std::uint32_t op = done_flows_of_.back();
        done_flows_of_.pop_back();
        OpState& state = op_[op];
        if (state.finish >= 0) continue;
        if (state.failed) {
            if (ending == Ending::RUNNING) {
                ending = counters.unreachable && !counters.timeouts ? Ending::UNREACHABLE : Ending::RETRY_EXCEEDED;
                culprits.push_back(op);
            }
            continue;
        }
        if (--state.flows_left) continue;
        if (--state.repeats_left) {
            begin(op);
        } else {
            finish_op(op);
        }
    }
}

}  // namespace railwright::packet
