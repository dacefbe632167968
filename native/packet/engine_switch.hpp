// A switch: where a packet goes next, whether it finds room, whom it makes pause, and when it is marked.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

inline std::uint32_t Engine::choose(const LinkSpan& links, std::uint32_t cls, std::int32_t node) {
    if (links.size == 1) return static_cast<std::uint32_t>(links.data[0]);
    switch (o_.paths) {
        case SPRAY_ROUND_ROBIN:
            return static_cast<std::uint32_t>(links.data[turn_of_node_[node]++ % links.size]);
        case ADAPTIVE: {  // the shortest queue; among equals the next in turn
            const std::uint32_t first = turn_of_node_[node]++ % links.size;
            std::uint32_t best = 0;
            Ps least = NEVER;
            for (std::uint32_t i = 0; i < links.size; ++i) {
                const auto link = static_cast<std::uint32_t>(links.data[(first + i) % links.size]);
                const Port& port = ports_[link];
                if (!port.up) continue;
                Ps wait = std::max<Ps>(0, port.busy_until - now) + port.time_of(lanes_[lane_of(link, cls)].queued);
                if (port.paused & (1u << cls)) wait += NEVER / 4;
                if (wait < least) {
                    least = wait;
                    best = link;
                    if (!wait) break;
                }
            }
            return best;
        }
        default:
            return static_cast<std::uint32_t>(links.data[static_cast<std::uint32_t>(random() * links.size)]);
    }
}

// The next link of a packet at `node`, or NONE. A path that no longer leads on (a failure) is left for the routing tables.
inline std::uint32_t Engine::next_link(Packet& packet, std::int32_t node) {
    if (packet.route) {
        const auto link = static_cast<std::uint32_t>(path_store_[packet.route]);
        if (static_cast<std::int32_t>(link) >= 0 && ports_[link].src == node) {
            ++packet.route;
            return link;
        }
        packet.route = 0;
        ++counters.rerouted;
    }
    const Sender& s = senders_[packet.flow];
    const std::int32_t target = packet.kind == DATA ? s.dst : s.src;
    const LinkSpan links = routes_.next_hops(node, target);
    if (!links.size) return NONE;
    const bool spray = o_.paths >= SPRAY_RANDOM && o_.paths <= ADAPTIVE;
    if (spray && packet.kind == DATA) return choose(links, s.cls, node);
    const std::uint32_t hash = ecmp_hash(static_cast<std::uint32_t>(s.src), static_cast<std::uint32_t>(target), packet.flow,
                                         switch_seed(o_.seed, node, o_.paths == POLARISED));
    return static_cast<std::uint32_t>(links.data[ecmp_pick(hash, links.size)]);
}

inline void Engine::forward(Packet packet, std::uint32_t in_lane) {
    const std::uint32_t cls = in_lane & lane_mask_;
    const std::int32_t node = ports_[in_lane >> lane_bits_].dst;
    const std::uint32_t link = next_link(packet, node);
    if (link == NONE) {
        ++counters.unreachable;
        if (o_.credits) return_credit(in_lane, packet.bytes);
        drop(packet, in_lane, Loss::NO_PATH);
        return;
    }
    Port& port = ports_[link];
    const std::uint32_t lane = lane_of(link, cls);
    const bool buffered = port.starts_at_switch;
    packet.ingress = buffered || o_.credits ? in_lane : NONE;
    if (!port.up) {
        if (o_.credits) return_credit(in_lane, packet.bytes);
        drop(packet, lane, Loss::LINK_DOWN);
        return;
    }
    if (port.busy_until <= now && !port.waiting && !(port.paused & (1u << cls)) &&
        (!o_.credits || has_credit(lane, packet.bytes))) {
        transmit_new(port, lane, packet);
        if (o_.credits) {
            return_credit(in_lane, packet.bytes);
        } else if (lanes_[in_lane].pausing) {
            check_resume(in_lane);
        }
        if (port.sources && !port.done_event) {
            port.done_event = true;
            push(port.busy_until, TX_DONE, link);
        }
        return;
    }
    if (buffered && !o_.credits) {
        Lane& in = lanes_[in_lane];
        const Profile& profile = profiles_[in.profile];
        Pool& pool = pools_[node];
        if (!admit(pool, in, profile, packet.bytes, lanes_[lane].queued)) {
            drop(packet, lane, profile.lossless ? Loss::HEADROOM : Loss::LOSSY_QUEUE);
            return;
        }
        if (profile.lossless && !in.pausing && must_pause(pool, in, profile)) send_pause(in_lane);
    } else if (o_.credits) {
        lanes_[in_lane].ingress += packet.bytes;
    }
    enqueue(link, lane, packet);
}

// The first bit of a packet that waited leaves: its room is free again.
inline void Engine::leave(std::uint32_t in_lane, std::uint32_t bytes) {
    Lane& in = lanes_[in_lane];
    if (o_.credits) {
        in.ingress -= bytes;
        return_credit(in_lane, bytes);
        return;
    }
    release(pools_[ports_[in_lane >> lane_bits_].dst], in, profiles_[in.profile], bytes);
    if (in.pausing) check_resume(in_lane);
}

// Random early marking at departure, on the bytes that stay behind in the queue.
inline void Engine::mark(Packet& packet, Lane& lane) {
    const Profile& p = profiles_[lane.profile];
    const std::int64_t queued = lane.queued;
    if (p.kmax <= 0 || queued <= p.kmin || (packet.kind != DATA && !o_.mark_acks)) return;
    if (queued <= p.kmax &&
        random() >= p.pmax * static_cast<double>(queued - p.kmin) / static_cast<double>(p.kmax - p.kmin))
        return;
    packet.flags |= CE;
    ++lane.marks;
    ++counters.marks;
}

}  // namespace railwright::packet
