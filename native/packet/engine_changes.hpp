// What happens to the network in a run, samples of its queues, and why a run that stands still does so.
#pragma once
#include <algorithm>

#include "packet/engine.hpp"

namespace railwright::packet {

inline void Engine::set_port(std::uint32_t link, bool up) {
    Port& port = ports_[link];
    if (port.up == up) return;
    port.up = up;
    if (up) {
        if (o_.credits)
            for (int cls = 0; cls < classes_; ++cls) {
                Lane& l = lanes_[lane_of(link, static_cast<std::uint32_t>(cls))];
                l.credit = static_cast<std::int32_t>(o_.credit_bytes) - static_cast<std::int32_t>(l.ingress);
                returns_[lane_of(link, static_cast<std::uint32_t>(cls))].head = returns_[lane_of(link, static_cast<std::uint32_t>(cls))].ring.size();
            }
        port.starved = 0;
        serve(link);
        return;
    }
    for (std::uint32_t cls = 0; cls <= lane_mask_; ++cls) {
        const std::uint32_t lane = lane_of(link, cls);
        Lane& l = lanes_[lane];
        const std::uint32_t first = l.ring.mid, last = l.ring.tail;
        l.ring.tail = first;
        l.queued = 0;
        for (std::uint32_t i = first; i != last; ++i) {
            const Packet packet = l.ring.at(i);
            if (packet.ingress != NONE) leave(packet.ingress, packet.bytes);
            drop(packet, lane, Loss::LINK_DOWN);
        }
        if (pauses_[lane].paused) end_pause(lane);
        l.pausing = false;
    }
    port.waiting = 0;
}

// A link or node goes down or comes back.
inline void Engine::set_subject(const Change& change) {
    const auto subject = static_cast<std::uint32_t>(change.subject);
    const bool up = change.kind == LINK_UP || change.kind == NODE_UP;
    if (change.kind == LINK_DOWN || change.kind == LINK_UP) {
        set_port(subject, up);
        set_port(subject ^ 1u, up);
        return;
    }
    for (const LinkSpan& span : {routes_.out_links(change.subject), routes_.in_links(change.subject)})
        for (const std::int32_t link : span) set_port(static_cast<std::uint32_t>(link), up);
}

// The routing tables learn of it.
inline void Engine::learn(const Change& change) {
    const bool up = change.kind == LINK_UP || change.kind == NODE_UP;
    if (change.kind == LINK_DOWN || change.kind == LINK_UP) {
        routes_.set_link(change.subject, up);
        routes_.set_link(change.subject ^ 1, up);
    } else {
        routes_.set_node(change.subject, up);
    }
}

inline void Engine::on_change(std::uint32_t index) {
    const Change& change = changes_[index];
    if (change.kind == STORM_ON || change.kind == STORM_OFF) {
        for (const std::int32_t link : routes_.in_links(change.subject))
            for (int cls = 0; cls < classes_; ++cls) {
                if (!o_.classes[cls].lossless) continue;
                const std::uint32_t lane = lane_of(static_cast<std::uint32_t>(link), static_cast<std::uint32_t>(cls));
                if (change.kind == STORM_ON) {
                    send_pause(lane);
                } else {
                    send_resume(lane);
                }
            }
        return;
    }
    set_subject(change);
    push(now + static_cast<Ps>(o_.reroute_us * 1e6), REROUTE, index);
}

inline void Engine::on_sample() {
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
        if (lanes_[lane].queued && (lane & lane_mask_) != lane_mask_)
            samples_.push_back({now, lane >> lane_bits_, static_cast<std::uint8_t>(lane & lane_mask_), lanes_[lane].queued});
    for (std::uint32_t link = 0; link < ports_.size(); ++link) {
        LinkSample sample{now, link, 0, static_cast<std::int64_t>(ports_[link].bytes), 0};
        for (int cls = 0; cls < classes_; ++cls) {
            const std::uint32_t lane = lane_of(link, static_cast<std::uint32_t>(cls));
            sample.marks += lanes_[lane].marks;
            sample.paused += paused_so_far(lane);
        }
        if (sample.bytes || sample.paused) link_samples_.push_back(sample);
    }
    const auto limit = static_cast<std::size_t>(o_.sample_limit);
    while (samples_.size() > limit || link_samples_.size() > limit) {  // keep every second moment, and go on at half the pace
        sample_every_ *= 2;
        const auto between = [this](const auto& sample) { return sample.time % sample_every_ != 0; };
        samples_.erase(std::remove_if(samples_.begin(), samples_.end(), between), samples_.end());
        link_samples_.erase(std::remove_if(link_samples_.begin(), link_samples_.end(), between), link_samples_.end());
    }
    push_background((now / sample_every_ + 1) * sample_every_, SAMPLE, 0);
}

// A paused (or starved) lane with packets waits for the lanes of the next switch that hold packets which came in by it. A
// cycle of such waits never ends. Lanes count that were paused at `paused_before` and ever since (credits: at any time).
inline bool Engine::find_wait_cycle(Ps paused_before) {
    const auto stuck = [&](std::uint32_t lane) {
        const Port& port = ports_[lane >> lane_bits_];
        const Lane& l = lanes_[lane];
        if (pauses_[lane].paused && pauses_[lane].since > paused_before) return false;
        return l.ring.mid != l.ring.tail && ((port.paused | port.starved) >> (lane & lane_mask_) & 1);
    };
    enum : std::uint8_t { NEW, OPEN, DONE };
    std::vector<std::uint8_t> seen(lanes_.size(), NEW);
    std::vector<std::uint32_t> trail;
    const auto waits_on = [&](std::uint32_t lane) {
        std::vector<std::uint32_t> next;
        const std::int32_t node = ports_[lane >> lane_bits_].dst;
        for (const std::int32_t link : routes_.out_links(node))
            for (int cls = 0; cls < classes_; ++cls) {
                const std::uint32_t other = lane_of(static_cast<std::uint32_t>(link), static_cast<std::uint32_t>(cls));
                if (!stuck(other)) continue;
                const Ring& ring = lanes_[other].ring;
                for (std::uint32_t i = ring.mid; i != ring.tail; ++i)
                    if (ring.at(i).ingress == lane) {
                        next.push_back(other);
                        break;
                    }
            }
        return next;
    };
    struct Frame {
        std::uint32_t lane;
        std::vector<std::uint32_t> next;
        std::size_t at;
    };
    for (std::uint32_t start = 0; start < lanes_.size(); ++start) {
        if (seen[start] != NEW || !stuck(start)) continue;
        std::vector<Frame> stack{{start, waits_on(start), 0}};
        seen[start] = OPEN;
        while (!stack.empty()) {
            Frame& top = stack.back();
            if (top.at == top.next.size()) {
                seen[top.lane] = DONE;
                stack.pop_back();
                continue;
            }
            const std::uint32_t next = top.next[top.at++];
            if (seen[next] == OPEN) {
                culprits.clear();
                std::size_t from = 0;
                while (stack[from].lane != next) ++from;
                for (; from < stack.size(); ++from) culprits.push_back(stack[from].lane);
                return true;
            }
            if (seen[next] == NEW) {
                seen[next] = OPEN;
                stack.push_back({next, waits_on(next), 0});
            }
        }
    }
    return false;
}

// Lanes with something to send that were paused at `paused_before` and ever since.
inline bool Engine::find_paused(Ps paused_before) {
    culprits.clear();
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
        if (pauses_[lane].paused && pauses_[lane].since <= paused_before &&
            (lanes_[lane].queued || (ports_[lane >> lane_bits_].sources >> (lane & lane_mask_) & 1)))
            culprits.push_back(lane);
    return !culprits.empty();
}

// At a retransmission timeout: retries do not help when ports have waited for each other in a cycle for all of `waited`, nor, for
// a flow that gives up, when a port stayed paused. A watchdog or a change to come might.
inline bool Engine::find_deadlock(Ps waited, bool giving_up) {
    constexpr Ps LEAST = 1'000'000'000;  // 1 ms: shorter pauses are daily life
    if (o_.watchdog_detect_us > 0 || (now < next_search_ && !giving_up) || (o_.credits && !giving_up)) return false;
    for (const Change& change : changes_)
        if (change.time > now) return false;
    waited = std::max(waited, LEAST);
    next_search_ = now + waited;
    if (find_wait_cycle(now - waited)) {
        ending = o_.credits ? Ending::CREDIT_DEADLOCK : Ending::PAUSE_DEADLOCK;
    } else if (giving_up && find_paused(now - waited)) {
        ending = Ending::PAUSED_FOREVER;
    }
    return ending != Ending::RUNNING;
}

// Nothing more can happen and operations are left: why?
inline void Engine::diagnose() {
    if (find_wait_cycle(NEVER)) {
        ending = o_.credits ? Ending::CREDIT_DEADLOCK : Ending::PAUSE_DEADLOCK;
        return;
    }
    if (find_paused(NEVER)) {
        ending = Ending::PAUSED_FOREVER;
        return;
    }
    for (std::uint32_t op = 0; op < ops_.n; ++op)
        if (op_[op].finish < 0 && op_[op].start >= 0) culprits.push_back(op);
    ending = Ending::LOST_TAIL;
    if (!culprits.empty()) return;
    ending = Ending::DEPENDENCY_CYCLE;
    for (std::uint32_t op = 0; op < ops_.n; ++op)
        if (op_[op].finish < 0) culprits.push_back(op);
}

}  // namespace railwright::packet
