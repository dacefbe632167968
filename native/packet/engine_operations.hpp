// Operations: start when what they wait for is done and their time has come, and let go of those that wait for them.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

// What it waits for has ended: release it now, or at its start time, or after the delay that a send has before it.
inline void Engine::hold(std::uint32_t op) {
    Ps due = std::max(now, static_cast<Ps>(ops_.start_ps[op]));
    if (ops_.kind[op] == SEND) due += ops_.duration_ps[op];
    if (due > now) {
        push(due, OPERATION, op);
    } else {
        op_[op].released = true;
        try_next(op);
    }
}

// An OPERATION event releases, or ends a computation that is under way.
inline void Engine::on_operation(std::uint32_t op) {
    OpState& state = op_[op];
    if (state.busy) {
        completed_.push_back(op);
        return;
    }
    state.released = true;
    try_next(op);
}

// Start the next repetition if nothing holds it. What takes no time is completed in `settle`, not here: chains of it may be
// long.
inline void Engine::try_next(std::uint32_t op) {
    OpState& state = op_[op];
    if (!state.released || state.busy || state.begun >= ops_.repeat[op]) return;
    for (std::int64_t k = ops_.gate_offset[op]; k < ops_.gate_offset[op + 1]; ++k) {
        const OpState& other = op_[ops_.gate[k]];
        if (other.finish < 0 && other.done < state.begun + ops_.gate_lead[k]) return;
    }
    state.busy = true;
    ++state.begun;
    if (state.start < 0) state.start = now;
    const std::int64_t bytes = ops_.bytes[op];
    if (ops_.kind[op] == SEND && bytes > 0 && ops_.src[op] != ops_.dst[op]) {
        const ClassOptions& options = o_.classes[ops_.cls[op]];
        const std::int64_t packets = (bytes + o_.payload_bytes - 1) / o_.payload_bytes;
        const std::int64_t pairs = std::clamp<std::int64_t>(options.queue_pairs, 1, packets);
        state.flows = state.leaving = static_cast<std::uint16_t>(pairs);
        for (std::int64_t k = 0; k < pairs; ++k)
            start_flow(op, bytes * (k + 1) / pairs - bytes * k / pairs, static_cast<std::uint32_t>(k));
    } else if (ops_.kind[op] != SEND && ops_.kind[op] != BARRIER && ops_.duration_ps[op] > 0) {
        push(now + ops_.duration_ps[op], OPERATION, op);
    } else {
        completed_.push_back(op);
    }
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

// A repetition has ended: the next one (of a send it may be under way), and those of other operations that waited for it, or
// the end of all.
inline void Engine::complete(std::uint32_t op) {
    OpState& state = op_[op];
    if (state.leaving == 0) state.busy = false;
    ++state.done;
    if (state.done >= ops_.repeat[op]) {
        state.finish = now;
        --unfinished_;
        for (std::uint32_t k = dependents_.offset[op]; k < dependents_.offset[op + 1]; ++k) {
            const std::uint32_t next = dependents_.op[k];
            if (--op_[next].waits_for == 0) hold(next);
        }
    } else {
        try_next(op);
    }
    for (std::uint32_t k = gated_.offset[op]; k < gated_.offset[op + 1]; ++k) try_next(gated_.op[k]);
}

// After an event: operations whose flows have all ended, and what follows from that at this moment.
inline void Engine::settle() {
    while (!done_flows_of_.empty() || !completed_.empty()) {
        if (!completed_.empty()) {
            const std::uint32_t op = completed_.back();
            completed_.pop_back();
            complete(op);
            continue;
        }
        const std::uint32_t what = done_flows_of_.back(), op = what & ~HAS_LEFT;
        done_flows_of_.pop_back();
        OpState& state = op_[op];
        if (what & HAS_LEFT) {
            if (--state.leaving == 0) {
                state.busy = false;
                try_next(op);
            }
            continue;
        }
        if (state.finish >= 0) continue;
        if (state.failed) {
            if (ending == Ending::RUNNING) {
                ending = counters.unreachable && !counters.timeouts ? Ending::UNREACHABLE : Ending::RETRY_EXCEEDED;
                culprits.push_back(op);
            }
            continue;
        }
        if (++state.arrived == state.flows) {
            state.arrived = 0;
            completed_.push_back(op);
        }
    }
}

}  // namespace railwright::packet
