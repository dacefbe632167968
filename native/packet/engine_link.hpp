// Transmission over a link: when it starts, what goes next, and the arrival at the other end.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

inline Ps Engine::duration(const Port& port, std::uint32_t bytes) const {
    const Ps exact = port.time_of(bytes);
    return o_.round_to_ns ? (exact + 500) / 1000 * 1000 : exact;
}

// The first bit leaves now: fix the arrival, and make it an event if none of this lane is one yet.
inline void Engine::fly(Port& port, std::uint32_t lane, Packet& packet) {
    const Ps whole = duration(port, packet.bytes);
    port.busy_until = now + whole;
    port.bytes += packet.bytes;
    if ((lane & lane_mask_) == lane_mask_) {
        packet.time = now + whole + port.frame_delay;
    } else {
        packet.time = now + port.delay +
                      (port.early ? std::min(whole, duration(port, static_cast<std::uint32_t>(o_.cut_through_bytes))) : whole);
    }
    ++counters.packet_hops;
    counters.data_packet_hops += packet.kind == DATA && !(packet.flags & AGAIN);
    Lane& l = lanes_[lane];
    if (o_.credits) l.credit -= packet.bytes;
    if (!l.arriving) {
        l.arriving = true;
        push(packet.time, ARRIVAL, lane);
    }
}

inline void Engine::transmit_new(Port& port, std::uint32_t lane, const Packet& packet) {
    Ring& ring = lanes_[lane].ring;
    ring.push();
    for (std::uint32_t i = ring.tail - 1; i != ring.mid; --i) ring.at(i) = ring.at(i - 1);  // what only passes through waits
    Packet& stored = ring.at(ring.mid++);
    stored = packet;
    if (telemetry_used_) stamp(stored, port, 0);
    fly(port, lane, stored);
}

inline void Engine::enqueue(std::uint32_t link, std::uint32_t lane, const Packet& packet) {
    Lane& l = lanes_[lane];
    Port& port = ports_[link];
    l.ring.push() = packet;
    if (packet.flags & LAST) budgets_[senders_[packet.flow].op].paused -= paused_so_far(lane);
    l.queued += packet.bytes;
    if (l.queued > l.queued_max) l.queued_max = l.queued;
    port.waiting |= static_cast<std::uint16_t>(1u << (lane & lane_mask_));
    if (!port.done_event) {
        if (port.busy_until > now) {
            if (port.open()) {
                port.done_event = true;
                push(port.busy_until, TX_DONE, link);
            }
        } else {
            serve(link);
        }
    }
}

// Of a host, or a control frame: no buffer accounting.
inline void Engine::send_or_enqueue(std::uint32_t link, std::uint32_t lane, const Packet& packet) {
    Port& port = ports_[link];
    const std::uint32_t bit = 1u << (lane & lane_mask_);
    if (port.busy_until <= now && !port.waiting && !(port.paused & bit) && port.up &&
        (!o_.credits || has_credit(lane, packet.bytes))) {
        transmit_new(port, lane, packet);
        if (port.open() && !port.done_event) {
            port.done_event = true;
            push(port.busy_until, TX_DONE, link);
        }
    } else {
        enqueue(link, lane, packet);
    }
}

inline std::uint32_t Engine::head_bytes(const Port& port, std::uint32_t link, int cls) const {
    if (port.waiting & (1u << cls)) {
        const Ring& ring = lanes_[lane_of(link, static_cast<std::uint32_t>(cls))].ring;
        return ring.at(ring.mid).bytes;
    }
    const Sender& s = senders_[send_queues_[static_cast<std::size_t>(port.host_port) * classes_ + cls].first];
    const bool last = s.again >= s.again_end && s.nxt + 1 == s.end;
    return static_cast<std::uint32_t>((last ? s.last_payload : o_.payload_bytes) + o_.header_bytes);
}

// The class to serve next, or -1. Control frames, then strict classes, then deficit round robin.
inline int Engine::pick(Port& port, std::uint32_t link) {
    for (;;) {
        const std::uint32_t open = port.open();
        if (!open) return -1;
        int cls;
        if (open & (1u << lane_mask_)) return static_cast<int>(lane_mask_);
        if (const std::uint32_t strict = open & strict_mask_) {
            cls = __builtin_ctz(strict);
        } else if (!(open & (open - 1))) {
            cls = __builtin_ctz(open);
        } else {
            for (cls = port.turn;;) {
                if (open & (1u << cls)) {
                    std::int32_t& deficit = deficit_[lane_of(link, static_cast<std::uint32_t>(cls))];
                    const auto bytes = static_cast<std::int32_t>(head_bytes(port, link, cls));
                    if (deficit >= bytes) {
                        deficit -= bytes;
                        break;
                    }
                    deficit += o_.classes[cls].weight * (o_.payload_bytes + o_.header_bytes);
                }
                cls = cls + 1 == classes_ ? 0 : cls + 1;
            }
            port.turn = static_cast<std::uint8_t>(cls);
        }
        const std::uint32_t lane = lane_of(link, static_cast<std::uint32_t>(cls));
        if (!o_.credits || has_credit(lane, head_bytes(port, link, cls))) return cls;
        await_credit(port, lane);
    }
}

inline void Engine::send_waiting(Port& port, std::uint32_t link, std::uint32_t cls) {
    const std::uint32_t lane = lane_of(link, cls);
    Lane& l = lanes_[lane];
    Packet& packet = l.ring.at(l.ring.mid++);
    l.queued -= packet.bytes;
    if (l.ring.mid == l.ring.tail) port.waiting &= static_cast<std::uint16_t>(~(1u << cls));
    if (port.starts_at_switch && cls != lane_mask_) mark(packet, l);
    if (packet.flags & LAST) {
        Budget& b = budgets_[senders_[packet.flow].op];
        b.paused += paused_so_far(lane);
        b.queueing += now - packet.time;
    }
    if (telemetry_used_) stamp(packet, port, l.queued);
    fly(port, lane, packet);
    if (packet.ingress != NONE) leave(packet.ingress, packet.bytes);  // after the port is busy: a resume may use it
}

// Whether a waiting packet goes before the flows of the class: acknowledgements and what switches hold always do; data that
// another GPU hands to this one's adapter take turns with its own.
inline bool Engine::passes_first(Port& port, std::uint32_t link, std::uint32_t cls) {
    if (!(port.waiting & (1u << cls))) return false;
    if (!(port.sources & (1u << cls))) return true;
    const Ring& ring = lanes_[lane_of(link, cls)].ring;
    if (ring.at(ring.mid).kind != DATA) return true;
    port.own_next = !port.own_next;
    return port.own_next;
}

inline void Engine::serve(std::uint32_t link) {
    Port& port = ports_[link];
    if (port.busy_until <= now && port.up) {
        const int cls = pick(port, link);
        if (cls < 0) return;
        if (passes_first(port, link, static_cast<std::uint32_t>(cls)))
            send_waiting(port, link, static_cast<std::uint32_t>(cls));
        else
            send_from_flow(port, link, static_cast<std::uint32_t>(cls));
    }
    if (port.open() && !port.done_event && port.up) {
        port.done_event = true;
        push(port.busy_until, TX_DONE, link);
    }
}

// Bad links: a Gilbert model with the asked share of losses and mean burst. Independent losses (share p) come in bursts of
// mean 1 / (1 - p), so that a shorter burst means independence.
inline bool Engine::corrupted(std::uint32_t link) {
    const double share = loss_[link];
    if (share <= 0) return false;
    const double leave_burst = std::min(1 / loss_burst_[link], 1 - share);
    std::uint8_t& bad = loss_state_[link];
    bad = random() < (bad ? 1 - leave_burst : share * leave_burst / (1 - share));
    return bad != 0;
}

inline void Engine::drop(const Packet& packet, std::uint32_t out_lane, Loss why) {
    ++counters.drops;
    ++counters.lost[static_cast<std::size_t>(why)];
    ++lanes_[out_lane].drops;
    if (packet.kind == PAUSE || packet.kind == RESUME) return;
    if (packet.kind == DATA) {
        ++receivers_[packet.flow].data_gone;
    } else {
        ++senders_[packet.flow].acks_gone;
    }
    if (telemetry_used_ && packet.extra != NONE && packet.kind != CNP && controls_[senders_[packet.flow].cls]->wants_telemetry)
        telemetry_.give(packet.extra);
    maybe_recycle(packet.flow);
}

inline void Engine::stamp(Packet& packet, const Port& port, std::uint32_t queued) {
    if (packet.kind != DATA || !port.starts_at_switch || packet.extra == NONE) return;
    if (!controls_[senders_[packet.flow].cls]->wants_telemetry) return;
    Telemetry& t = telemetry_[packet.extra];
    if (t.hops == Telemetry::MAX_HOPS) return;
    t.hop[t.hops++] = {now, static_cast<double>(port.bytes), static_cast<double>(queued),
                       8e12 * 65536 / static_cast<double>(port.ps_per_byte_16)};
}

inline void Engine::on_arrival(std::uint32_t lane) {
    Lane& l = lanes_[lane];
    const Packet packet = l.ring.at(l.ring.head++);
    if (l.ring.head != l.ring.mid) {
        push(l.ring.at(l.ring.head).time, ARRIVAL, lane);
    } else {
        l.arriving = false;
    }
    const std::uint32_t link = lane >> lane_bits_;
    const Port& port = ports_[link];
    if (!port.up) {
        drop(packet, lane, Loss::LINK_DOWN);
        return;
    }
    if (!loss_.empty() && corrupted(link)) {
        ++counters.corrupted;
        if (o_.credits) return_credit(lane, packet.bytes);
        drop(packet, lane, Loss::CORRUPTED);
        return;
    }
    if (packet.kind >= PAUSE) {
        on_pause_frame(packet, lane);
    } else if (port.ends_at_host && path_store_[packet.route] < 0) {
        receive(packet, lane);
    } else {
        forward(packet, lane);
    }
}

}  // namespace railwright::packet
