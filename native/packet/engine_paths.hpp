// Paths of flows: resolved once when a flow starts, kept in one store, so that a hop reads one number.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

inline constexpr std::int32_t LOST_WAY = -2;  // in the path store: ask the routing tables from here on

inline bool Engine::find_path(std::int32_t src, std::int32_t dst, std::uint32_t entropy, std::vector<std::int32_t>& path) {
    path.clear();
    const PathMode mode = o_.paths == POLARISED ? PathMode::POLARISED : o_.paths == RAIL ? PathMode::RAIL : PathMode::ECMP;
    return routes_.path(src, dst, entropy, mode, o_.seed, o_.scale_up, path);
}

// Unloaded time from the first bit to the last one's arrival of `repeat` messages, each sent when the one before has left.
//
// A packet starts at a link when it has come (its head, where the link before cuts through) and its predecessor has left. So
// its start is the longest way through a grid of links and packets: n equal packets that find link i free at f(i) leave link l
// first at f(i) + the way from i to l + (n - 1) times the slowest link on it, the largest over i. The last packet of a
// message, perhaps shorter, may catch up and then waits for its predecessor at every link.
inline Ps Engine::ideal_time(const std::vector<std::int32_t>& path, std::int64_t bytes, std::uint32_t repeat) const {
    const std::int64_t payload = o_.payload_bytes;
    const std::int64_t packets = std::max<std::int64_t>(1, (bytes + payload - 1) / payload);
    const auto full = static_cast<std::uint32_t>(payload + o_.header_bytes);
    const auto last = static_cast<std::uint32_t>(bytes - (packets - 1) * payload + o_.header_bytes);
    struct Hop {
        Ps whole, shorter;          // transmission of a full and of the last packet
        Ps way, shorter_way;        // from its start here to its start at the next link
        Ps free, next_free;         // of this link, after the message before
    };
    std::vector<Hop> hops;
    Ps pace = 0;  // of messages, at the slowest link
    for (const std::int32_t link : path) {
        const Port& port = ports_[link];
        const Ps whole = duration(port, full), shorter = duration(port, last);
        const Ps seen = port.early ? duration(port, static_cast<std::uint32_t>(o_.cut_through_bytes)) : NEVER;
        hops.push_back({whole, shorter, std::min(whole, seen) + port.delay, std::min(shorter, seen) + port.delay, 0, 0});
        pace = std::max(pace, (packets - 1) * whole + shorter);
    }
    Ps finish = 0;
    for (std::uint32_t sent = 0; sent < repeat; ++sent) {
        Ps arrival = 0;  // of the last packet at the link
        for (std::size_t l = 0; l < hops.size(); ++l) {
            Ps ready = hops[l].free;
            if (packets > 1) {
                Ps way = 0, slowest = 0, start = 0;
                for (std::size_t i = l + 1; i-- > 0;) {
                    if (i < l) way += hops[i].way;
                    slowest = std::max(slowest, hops[i].whole);
                    start = std::max(start, hops[i].free + way + (packets - 2) * slowest);
                }
                ready = start + hops[l].whole;
            }
            const Ps start = std::max(arrival, ready);
            hops[l].next_free = start + hops[l].shorter;
            arrival = start + hops[l].shorter_way;
        }
        for (Hop& hop : hops) hop.free = hop.next_free;
        const bool steady = arrival - finish == pace;
        finish = arrival;
        if (steady) return finish + static_cast<Ps>(repeat - sent - 1) * pace;
    }
    return finish;
}

inline Ps Engine::base_round_trip(const std::vector<std::int32_t>& path) const {
    Ps total = 0;
    for (const std::int32_t link : path)
        total += 2 * ports_[link].delay + ports_[link].time_of(static_cast<std::uint32_t>(o_.payload_bytes));
    return total;
}

inline bool Engine::store_paths(std::uint32_t flow, std::uint32_t op, std::uint32_t entropy, std::int64_t bytes) {
    Sender& s = senders_[flow];
    Receiver& r = receivers_[flow];
    const std::int64_t from = ops_.path_offset[op], to = ops_.path_offset[op + 1];
    s.pinned = to > from;
    if (s.pinned) {
        forth_.assign(ops_.path + from, ops_.path + to);
        back_.clear();
        for (std::int64_t i = to; i-- > from;) back_.push_back(ops_.path[i] ^ 1);
    } else {
        if (!find_path(s.src, s.dst, entropy, forth_) || !find_path(s.dst, s.src, entropy, back_)) return false;
        s.pinned = network_.node_kind[network_.link_dst[forth_[0]]] == SCALE_UP;
    }
    s.link = static_cast<std::uint32_t>(forth_[0]);
    r.link = static_cast<std::uint32_t>(back_[0]);
    s.path = 0;
    s.paths = 1;
    s.stride = static_cast<std::uint8_t>(forth_.size());
    combined_.assign(forth_.begin() + 1, forth_.end());
    combined_.push_back(-1);
    const std::uint32_t first = s.link;
    if (!s.pinned && (o_.paths == FLOWLET || o_.paths == MULTIPATH)) {
        for (std::uint32_t k = 1; s.paths < o_.flowlet_paths && k < 64u * static_cast<std::uint32_t>(o_.flowlet_paths); ++k) {
            std::vector<std::int32_t> other;
            if (!find_path(s.src, s.dst, entropy + k * 0x9e3779b9u, other)) break;
            if (static_cast<std::uint32_t>(other[0]) != first || other.size() != forth_.size()) continue;
            combined_.insert(combined_.end(), other.begin() + 1, other.end());
            combined_.push_back(-1);
            ++s.paths;
        }
    }
    const auto back_at = static_cast<std::uint32_t>(combined_.size());
    combined_.insert(combined_.end(), back_.begin() + 1, back_.end());
    combined_.push_back(-1);
    s.path_words = static_cast<std::uint16_t>(combined_.size());
    if (free_paths_.size() <= combined_.size()) free_paths_.resize(combined_.size() + 1);
    auto& free = free_paths_[combined_.size()];
    if (free.empty()) {
        s.route = static_cast<std::uint32_t>(path_store_.size());
        path_store_.insert(path_store_.end(), combined_.begin(), combined_.end());
    } else {
        s.route = free.back();
        free.pop_back();
        std::copy(combined_.begin(), combined_.end(), path_store_.begin() + s.route);
    }
    r.route = s.route + back_at;
    s.line_bps = 8e12 * 65536 / static_cast<double>(ports_[s.link].ps_per_byte_16);
    if (op_[op].hops == 0) {
        op_[op].hops = static_cast<std::uint16_t>(forth_.size());
        // Queue pairs of one message share the host's ports.
        std::int64_t at_port = 0;
        for (const std::int32_t link : routes_.out_links(s.src)) at_port += network_.node_kind[network_.link_dst[link]] != SCALE_UP;
        at_port = (ops_.bytes[op] + std::max<std::int64_t>(1, at_port) - 1) / std::max<std::int64_t>(1, at_port);
        op_[op].ideal = ideal_time(forth_, std::max(bytes, std::min(at_port, bytes * o_.classes[s.cls].queue_pairs)), ops_.repeat[op]);
        if (!budgets_.empty()) {
            budgets_[op].first_link = s.link;
            budgets_[op].paused_at_start = paused_so_far(lane_of(s.link, s.cls));
            for (const std::int32_t link : forth_) {
                const Port& port = ports_[link];
                const Ps propagation = port.frame_delay - static_cast<Ps>(o_.pause_response_ns * 1e3);
                budgets_[op].propagation += propagation;
                budgets_[op].switching += port.delay - propagation;
            }
        }
    }
    return true;
}

// After a failure was noticed: flows whose path broke get a new one in the same place (same length), or are left to the
// routing tables hop by hop (see next_link).
inline void Engine::reroute_flows() {
    for (std::uint32_t flow = 0; flow < senders_.size(); ++flow) {
        Sender& s = senders_[flow];
        if (!s.open || s.op == NONE) continue;
        Receiver& r = receivers_[flow];
        const auto broken = [&](std::uint32_t first, std::uint32_t route) {
            if (!ports_[first].up) return true;
            for (; path_store_[route] >= 0; ++route)
                if (!ports_[path_store_[route]].up) return true;
            return false;
        };
        const auto mend = [&](std::int32_t src, std::int32_t dst, std::uint32_t& first, std::uint32_t route, std::uint32_t salt) {
            if (!find_path(src, dst, salt, forth_)) return;
            std::uint32_t length = 0;
            while (path_store_[route + length] >= 0) ++length;
            if (forth_.size() != length + 1) {
                path_store_[route] = LOST_WAY;
                first = static_cast<std::uint32_t>(forth_[0]);
                return;
            }
            first = static_cast<std::uint32_t>(forth_[0]);
            std::copy(forth_.begin() + 1, forth_.end(), path_store_.begin() + route);
        };
        const std::uint32_t salt = ops_.entropy[s.op] + 1;
        const std::uint32_t old_link = s.link;
        for (std::uint32_t k = 0; k < s.paths; ++k)
            if (broken(s.link, s.route + k * s.stride)) mend(s.src, s.dst, s.link, s.route + k * s.stride, salt + k);
        if (broken(r.link, r.route)) mend(s.dst, s.src, r.link, r.route, salt);
        if (s.link != old_link && s.state == Send::QUEUED) {  // it waits at a port that it no longer uses
            s.state = Send::IDLE;
            SendQueue& queue = send_queues_[static_cast<std::size_t>(ports_[old_link].host_port) * classes_ + s.cls];
            std::uint32_t before = NONE;
            for (std::uint32_t f = queue.first; f != NONE && f != flow; f = senders_[f].next_queued) before = f;
            (before == NONE ? queue.first : senders_[before].next_queued) = s.next_queued;
            if (queue.last == flow) queue.last = before;
            if (queue.first == NONE) ports_[old_link].sources &= static_cast<std::uint16_t>(~(1u << s.cls));
        }
        wake(flow);
    }
}

}  // namespace railwright::packet
