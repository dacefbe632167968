// The NIC: pacing and order of the flows, acknowledgements, loss recovery and timeouts.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

inline bool test_bit(const std::vector<std::uint64_t>& bits, std::uint32_t i) { return bits[i >> 6] >> (i & 63) & 1; }
inline void set_bit(std::vector<std::uint64_t>& bits, std::uint32_t i) { bits[i >> 6] |= std::uint64_t{1} << (i & 63); }

inline std::vector<std::uint64_t>& Engine::bitmap(std::uint32_t& index, std::uint32_t packets) {
    if (index == NONE) {
        if (free_bitmaps_.empty()) {
            free_bitmaps_.push_back(static_cast<std::uint32_t>(bitmaps_.size()));
            bitmaps_.emplace_back();
        }
        index = free_bitmaps_.back();
        free_bitmaps_.pop_back();
        bitmaps_[index].assign(packets / 64 + 1, 0);
    }
    return bitmaps_[index];
}

inline bool Engine::may_send(const Sender& s) const {
    if (!s.open) return false;
    if (s.again < s.again_end) return true;
    if (s.nxt >= s.end) return false;
    return s.window_bytes <= 0 || static_cast<double>(s.nxt - s.una - s.sacked) * o_.payload_bytes < s.window_bytes;
}

// Put an idle flow that may send where it belongs: the send queue of its port, or a wait for its pace.
inline void Engine::place(std::uint32_t flow, Sender& s) {
    Port& port = ports_[s.link];
    if (s.next_send > now && s.next_send > port.busy_until) {
        s.state = Send::TIMED;
        push(s.next_send, FLOW_READY, flow);
        return;
    }
    s.state = Send::QUEUED;
    s.next_queued = NONE;
    SendQueue& queue = send_queues_[static_cast<std::size_t>(port.host_port) * classes_ + s.cls];
    if (queue.first == NONE) {
        queue.first = flow;
        port.sources |= static_cast<std::uint16_t>(1u << s.cls);
    } else {
        senders_[queue.last].next_queued = flow;
    }
    queue.last = flow;
}

inline void Engine::wake(std::uint32_t flow) {
    Sender& s = senders_[flow];
    if (s.state != Send::IDLE || !may_send(s)) return;
    place(flow, s);
    if (s.state == Send::QUEUED && !ports_[s.link].done_event) serve(s.link);
}

inline void Engine::on_flow_ready(std::uint32_t flow) {
    Sender& s = senders_[flow];
    s.state = Send::IDLE;
    if (!s.open) {
        maybe_recycle(flow);
        return;
    }
    wake(flow);
}

// Holes first, then new packets.
inline std::uint32_t Engine::next_packet(Sender& s) {
    if (s.again >= s.again_end) return s.nxt++;
    const std::uint32_t packet = s.again++;
    skip_acknowledged(s);
    return packet;
}

// `again` stands on a packet that the receiver lacks, or at its end.
inline void Engine::skip_acknowledged(Sender& s) {
    if (s.again < s.una) s.again = s.una;
    if (s.holes == NONE) return;
    const auto& holes = bitmaps_[s.holes];
    while (s.again < s.again_end && test_bit(holes, s.again)) ++s.again;
}

// The last packet of an operation leaves: what it waited for at the sender is all that its predecessors' bytes do not explain.
inline void Engine::note_last(const Port& port, const Sender& s, Packet& packet) {
    const OpState& op = op_[s.op];
    if (op.begun < ops_.repeat[s.op]) return;
    Budget& b = budgets_[s.op];
    packet.flags |= LAST;
    b.queueing = b.paused = 0;
    if (packet.flags & AGAIN) {
        b.again = now - b.first_sent;
        return;
    }
    const std::int64_t bytes = ops_.bytes[s.op], payload = o_.payload_bytes;
    const std::int64_t packets = (bytes + payload - 1) / payload;
    const auto full = static_cast<std::uint32_t>(payload + o_.header_bytes);
    const auto shorter = static_cast<std::uint32_t>(bytes - (packets - 1) * payload + o_.header_bytes);
    const Ps message = (packets - 1) * duration(port, full) + duration(port, shorter);
    b.first_sent = now;
    b.sender = std::max<Ps>(0, now - op.start - (message * ops_.repeat[s.op] - duration(port, packet.bytes)));
    b.sender_paused = std::min(b.sender, paused_so_far(lane_of(s.link, s.cls)) - b.paused_at_start);
}

inline void Engine::send_from_flow(Port& port, std::uint32_t link, std::uint32_t cls) {
    SendQueue& queue = send_queues_[static_cast<std::size_t>(port.host_port) * classes_ + cls];
    const std::uint32_t flow = queue.first;
    Sender& s = senders_[flow];
    queue.first = s.next_queued;
    if (queue.first == NONE) port.sources &= static_cast<std::uint16_t>(~(1u << cls));
    s.state = Send::IDLE;
    if (!may_send(s)) {  // it closed or lost its window while it waited
        if (!s.open) maybe_recycle(flow);
        return;
    }
    if (s.nxt == s.una) s.deadline = now + timeout_of(s);
    const std::uint32_t seq = next_packet(s);
    const std::uint32_t payload = seq + 1 == s.end ? s.last_payload : static_cast<std::uint32_t>(o_.payload_bytes);
    const ClassOptions& options = o_.classes[cls];
    Control& control = *controls_[cls];
    Packet packet{0, flow, seq, NONE, s.route, NONE, static_cast<std::uint16_t>(payload + static_cast<std::uint32_t>(o_.header_bytes)), DATA, 0};
    if (o_.paths >= SPRAY_RANDOM) {
        if (o_.paths <= ADAPTIVE) {
            if (!s.pinned) packet.route = 0;
        } else {
            if (o_.paths == MULTIPATH || now - s.last_send > static_cast<Ps>(o_.flowlet_gap_us * 1e6))
                s.path = static_cast<std::uint8_t>(s.path + 1 == s.paths ? 0 : s.path + 1);
            packet.route = s.route + static_cast<std::uint32_t>(s.path) * s.stride;
        }
    }
    if (seq < s.highest) {
        packet.flags = AGAIN;
        ++counters.again_packets;
        op_[s.op].again_bytes += payload;
    } else {
        s.highest = seq + 1;
        ++counters.data_packets;
        if (s.highest == s.end) done_flows_of_.push_back(s.op | HAS_LEFT);
        if (!s.timing && options.rto_min_us > 0) {
            s.timing = true;
            s.timed_packet = seq;
            s.timed_at = now;
        }
    }
    if (control.wants_telemetry) packet.extra = telemetry_.take();
    if (!budgets_.empty() && seq + 1 == s.end) note_last(port, s, packet);
    ++s.data_sent;
    s.last_send = now;
    transmit_new(port, lane_of(link, cls), packet);
    if (control.hears_send) {
        control.before_send(s, now);
        control.on_sent(s, payload);
    }
    if (s.rate_bps >= s.line_bps) {
        s.next_send = port.busy_until;
    } else {
        const Ps gap = static_cast<Ps>(static_cast<double>(packet.bytes) * 8e12 / s.rate_bps + 0.5);
        s.next_send = now + (o_.round_to_ns ? (gap + 500) / 1000 * 1000 : gap);
    }
    arm_timeout(flow, s);
    if (may_send(s)) place(flow, s);
}

inline Ps Engine::timeout_of(const Sender& s) const {
    const ClassOptions& c = o_.classes[s.cls];
    if (c.rto_min_us > 0) {
        const Ps least = static_cast<Ps>(c.rto_min_us * 1e6);
        const Ps base = std::max(least, s.rtt ? 2 * s.rtt + least / 4 : static_cast<Ps>(c.rto_us * 1e6));
        return base << std::min<int>(s.retries, 6);
    }
    return static_cast<Ps>(c.rto_us * 1e6);
}

// One event per flow is enough while deadlines move on: it looks again when it fires. An earlier deadline needs its own.
inline void Engine::arm_timeout(std::uint32_t flow, Sender& s) {
    if (s.timer_at && s.timer_at <= s.deadline) return;
    if (timeout_of(s) <= 0) return;
    s.timer_at = std::max(s.deadline, now + 1);
    push(s.timer_at, TIMEOUT, flow);
}

inline void Engine::on_timeout(std::uint32_t flow) {
    Sender& s = senders_[flow];
    if (now != s.timer_at) return;
    s.timer_at = 0;
    if (!s.open || s.nxt == s.una) return;  // armed again with the next packet
    if (s.deadline > now) {
        arm_timeout(flow, s);
        return;
    }
    ++counters.timeouts;
    const ClassOptions& c = o_.classes[s.cls];
    const bool giving_up = c.retry_limit > 0 && s.retries >= c.retry_limit;
    if (find_deadlock(timeout_of(s), giving_up)) return;
    if (c.retry_limit > 0 && ++s.retries > c.retry_limit) {
        close(flow, true);
        return;
    }
    if (c.retry_limit == 0 && s.retries < 6) ++s.retries;
    controls_[s.cls]->on_loss(s, now, true);
    s.timing = false;
    s.recover = s.highest;
    if (c.selective_repeat) {
        s.again = s.una;
        s.again_end = s.nxt;
        skip_acknowledged(s);
    } else {
        s.nxt = s.una;
    }
    s.deadline = now + timeout_of(s);
    arm_timeout(flow, s);
    wake(flow);
}

inline void Engine::receive(const Packet& packet, std::uint32_t lane) {
    if (o_.credits) return_credit(lane, packet.bytes);
    if (packet.kind == DATA) {
        receive_data(packet);
    } else {
        receive_ack(packet);
    }
}

inline void Engine::acknowledge(std::uint32_t flow, Receiver& r, const Packet& cause, Kind kind) {
    const std::uint32_t ahead = cause.seq + 1 > r.expected ? cause.seq + 1 - r.expected : 0;
    Packet ack{0, flow, r.expected, NONE, r.route, (static_cast<std::uint32_t>(std::min<std::uint32_t>(r.marked, 255)) << 24) | (ahead & 0xffffff),
               static_cast<std::uint16_t>(o_.ack_bytes), kind, 0};
    if (telemetry_used_ && controls_[r.cls]->wants_telemetry) ack.extra = cause.extra;
    if (o_.notify_on_ack && (cause.flags & CE)) ack.flags = NOTIFY;
    r.unacked = 0;
    r.marked = 0;
    ++r.acks_sent;
    send_or_enqueue(r.link, lane_of(r.link, o_.ack_class < 0 ? r.cls : static_cast<std::uint32_t>(o_.ack_class)), ack);
}

inline void Engine::receive_data(const Packet& packet) {
    Receiver& r = receivers_[packet.flow];
    ++r.data_gone;
    const bool telemetry = telemetry_used_ && controls_[r.cls]->wants_telemetry;
    if (packet.flags & CE) {
        if (r.marked < 255) ++r.marked;
        if (!o_.notify_on_ack && now >= r.notified_at && !r.done) {
            r.notified_at = now + static_cast<Ps>(o_.notify_interval_us * 1e6);
            const Packet cnp{0, packet.flow, 0, NONE, r.route, NONE, static_cast<std::uint16_t>(o_.cnp_bytes), CNP, 0};
            ++r.acks_sent;
            ++counters.notifications;
            send_or_enqueue(r.link, lane_of(r.link, static_cast<std::uint32_t>(o_.notify_class)), cnp);
        }
    }
    const ClassOptions& options = o_.classes[r.cls];
    if (packet.seq == r.expected) {
        ++r.expected;
        if (r.have != NONE) {
            const auto& have = bitmaps_[r.have];
            while (r.expected < r.end && test_bit(have, r.expected)) ++r.expected;
        }
        r.nack_for = NONE;
        ++r.unacked;
        if (r.expected == r.end) {
            r.done = true;
            if (!o_.finish_at_sender) done_flows_of_.push_back(senders_[packet.flow].op);
        }
        const bool now_due = r.unacked >= o_.ack_every || r.expected == r.end ||
                             (o_.notify_on_ack && (packet.flags & CE));
        if (now_due) {
            acknowledge(packet.flow, r, packet, ACK);
        } else if (telemetry) {
            telemetry_.give(packet.extra);
        }
        return;
    }
    if (packet.seq > r.expected && options.selective_repeat) {
        auto& have = bitmap(r.have, r.end);
        if (test_bit(have, packet.seq)) {
            ++counters.duplicates;
        } else {
            set_bit(have, packet.seq);
            ++counters.out_of_order;
        }
        acknowledge(packet.flow, r, packet, NACK);
        return;
    }
    if (packet.seq > r.expected) {  // go-back-N: the packet is lost, and the sender hears once per gap and interval
        ++counters.out_of_order;
        if (r.nack_for != r.expected || now >= r.nack_at) {
            r.nack_for = r.expected;
            r.nack_at = now + static_cast<Ps>(o_.nack_interval_us * 1e6);
            ++counters.nacks;
            acknowledge(packet.flow, r, packet, NACK);
            return;
        }
    } else {
        ++counters.duplicates;
        if (!o_.ignore_duplicates) {
            acknowledge(packet.flow, r, packet, ACK);
            return;
        }
    }
    if (telemetry) telemetry_.give(packet.extra);
    if (r.done) maybe_recycle(packet.flow);
}

inline void Engine::receive_ack(const Packet& packet) {
    const std::uint32_t flow = packet.flow;
    Sender& s = senders_[flow];
    ++s.acks_gone;
    Control& control = *controls_[s.cls];
    const bool telemetry = telemetry_used_ && control.wants_telemetry && packet.kind != CNP;
    if (!s.open) {
        if (telemetry && packet.extra != NONE) telemetry_.give(packet.extra);
        maybe_recycle(flow);
        return;
    }
    if (packet.kind == CNP || (packet.flags & NOTIFY)) {
        if (packet.kind != CNP) ++counters.notifications;
        control.on_notification(s, now);
        if (packet.kind == CNP) {
            wake(flow);
            return;
        }
    }
    const ClassOptions& options = o_.classes[s.cls];
    const std::uint32_t marked = telemetry ? (packet.flags & NOTIFY) : packet.extra >> 24;
    const std::uint32_t seen = telemetry ? packet.seq : packet.seq + (packet.extra & 0xffffff);
    AckInfo info{now, 0, marked, 0, 0, telemetry ? packet.extra : NONE};
    if (packet.seq > s.una) {
        const std::uint32_t acked = packet.seq - s.una;
        info.acked = acked;
        info.bytes = static_cast<double>(acked) * o_.payload_bytes;
        if (s.sacked) {  // those that were acknowledged selectively before are not in flight any more
            const auto& holes = bitmaps_[s.holes];
            for (std::uint32_t i = s.una; i < packet.seq; ++i) s.sacked -= test_bit(holes, i);
        }
        s.una = packet.seq;
        if (s.nxt < s.una) s.nxt = s.una;
        skip_acknowledged(s);
        s.retries = 0;
        if (s.timing && s.una > s.timed_packet) {
            s.timing = false;
            const Ps sample = now - s.timed_at;
            s.rtt = s.rtt ? (7 * s.rtt + sample) / 8 : sample;
            info.rtt = sample;
        }
        s.deadline = now + timeout_of(s);
        arm_timeout(flow, s);
    }
    if (packet.kind == NACK) {
        if (!options.selective_repeat) {
            if (packet.seq < s.nxt && packet.seq >= s.una) {
                control.on_loss(s, now, false);
                s.nxt = s.una;
            }
        } else if (seen > packet.seq && seen - 1 < s.highest) {
            auto& holes = bitmap(s.holes, s.end);
            if (seen - 1 >= s.una && !test_bit(holes, seen - 1)) {
                set_bit(holes, seen - 1);
                ++s.sacked;
                skip_acknowledged(s);
            }
            const std::uint32_t slack = static_cast<std::uint32_t>(options.reorder_packets);
            const std::uint32_t lost_end = seen - 1 > slack ? seen - 1 - slack : 0;
            if (options.reorder_packets >= 0 && lost_end > s.again_end && lost_end > s.una) {
                s.again = std::max({s.again, s.again_end, s.una});
                s.again_end = lost_end;
                skip_acknowledged(s);
                if (s.again < s.again_end && s.una >= s.recover) {
                    s.recover = s.highest;
                    control.on_loss(s, now, false);
                }
            }
        }
    }
    control.on_ack(s, info, telemetry && packet.extra != NONE ? &telemetry_[packet.extra] : nullptr);
    if (telemetry && packet.extra != NONE) telemetry_.give(packet.extra);
    if (s.una == s.end) {
        close(flow, false);
        return;
    }
    wake(flow);
}

inline void Engine::close(std::uint32_t flow, bool failed) {
    Sender& s = senders_[flow];
    s.open = false;
    s.failed = failed;
    if (failed) {
        op_[s.op].failed = true;
        done_flows_of_.push_back(s.op);
    } else if (o_.finish_at_sender) {
        done_flows_of_.push_back(s.op);
    }
    maybe_recycle(flow);
}

// A flow's place is free when nothing of it is on a wire, in a queue or among the events.
inline void Engine::maybe_recycle(std::uint32_t flow) {
    Sender& s = senders_[flow];
    if (s.open || s.op == NONE) return;
    Receiver& r = receivers_[flow];
    if (s.state != Send::IDLE || s.data_sent != r.data_gone || r.acks_sent != s.acks_gone) return;
    controls_[s.cls]->finish(s);
    for (std::uint32_t* held : {&s.holes, &r.have})
        if (*held != NONE) {
            free_bitmaps_.push_back(*held);
            *held = NONE;
        }
    s.op = NONE;
    free_paths_[s.path_words].push_back(s.route);
    free_flows_[s.cls].push_back(flow);  // by class: a timeout event that is still to come then fits the next flow here
}

}  // namespace railwright::packet
