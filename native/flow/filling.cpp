// The full computation of all rates, which the link-by-link repairs of `sharing.cpp` are measured against and cut off by.
#include <algorithm>
#include <cmath>
#include <vector>

#include "flow/sharing.hpp"

namespace railwright::flow {

// Progressive filling: repeatedly fix the flows of the link with the lowest level. Fixing flows elsewhere can only raise the
// level of a link, so that a heap with outdated (lower) keys finds the minimum.
void Sharing::fill() {
    const auto all = static_cast<std::int32_t>(link_.size());
    full_rate_.assign(flows_.size(), -1);
    full_limit_.assign(flows_.size(), -1);
    full_level_.assign(all, INF);
    std::vector<double> left(all), open(all), used(links_, 0.0);
    std::vector<std::uint32_t> open_count(all);
    std::vector<std::vector<Key>> heaps(priorities_);
    for (std::int32_t link = 0; link < all; ++link)
        if (!members_[link].empty()) heaps[held_[link].priority].push_back({0, link});
    for (unsigned p = 0; p < priorities_; ++p) {
        std::vector<Key>& heap = heaps[p];
        for (Key& entry : heap) {
            const std::int32_t link = entry.link;
            left[link] = link < shared_ ? std::max(0.0, base_[base_of(link)] - used[base_of(link)]) : held_[link].capacity;
            open_count[link] = static_cast<std::uint32_t>(members_[link].size());
            for (const Member& member : members_[link]) open[link] += member.unit;
            entry.key = left[link] / open[link];
        }
        std::make_heap(heap.begin(), heap.end());
        while (!heap.empty()) {
            std::pop_heap(heap.begin(), heap.end());
            const Key top = heap.back();
            heap.pop_back();
            if (!open_count[top.link]) continue;
            const double now = std::max(0.0, left[top.link]) / open[top.link];
            if (now > top.key * (1 + SAME)) {
                heap.push_back({now, top.link});
                std::push_heap(heap.begin(), heap.end());
                continue;
            }
            const std::vector<Member>& members = members_[top.link];
            work_.visits += members.size();
            double fixed = 0, units = 0;
            for (const Member& member : members) {
                const double rate = full_rate_[member.slot];
                if (rate < 0) {
                    units += member.unit;
                } else {
                    fixed += member.unit * (rate / flows_[member.slot].weight);
                }
            }
            double capacity = held_[top.link].capacity;
            if (top.link < shared_) {
                const std::int32_t base = base_of(top.link);
                capacity = p ? std::max(0.0, base_[base] - (used[base] - fixed)) : base_[base];
            }
            const double level = std::max(0.0, capacity - fixed) / units;
            full_level_[top.link] = level;
            for (const Member& member : members) {
                if (full_rate_[member.slot] >= 0) continue;
                const double rate = level * flows_[member.slot].weight;
                full_rate_[member.slot] = rate;
                full_limit_[member.slot] = top.link;
                for (std::uint32_t i = 0; i < member.count; ++i) {
                    const Place& place = places_[member.first + i];
                    left[place.link] -= place.unit * level;
                    open[place.link] -= place.unit;
                    --open_count[place.link];
                    if (place.link < shared_) used[base_of(place.link)] += place.unit * level;
                }
            }
        }
    }
}

void Sharing::fill_all() {
    ++work_.fills;
    for (Slot slot = 0; slot < flows_.size(); ++slot)
        if (flows_[slot].live) flows_[slot].pending = remaining(slot);
    fill();
    for (RepairQueue& queue : dirty_)
        while (!queue.empty()) is_dirty_[queue.pop()] = 0;
    for (std::int32_t link = 0; link < static_cast<std::int32_t>(link_.size()); ++link) {
        advance(link);
        if (members_[link].empty()) continue;
        link_[link].level = full_level_[link];
        held_[link].count = 0;
        held_[link].first = -1;
        touch(link);
    }
    for (Slot slot = 0; slot < flows_.size(); ++slot) {
        Flow& flow = flows_[slot];
        if (!flow.live) continue;
        flow.limit = full_limit_[slot];
        for (std::uint32_t i = 0; i < flow.count; ++i) {
            const Place& place = places_[flow.first + i];
            if (place.link != flow.limit) continue;
            Held& held = held_[place.link];
            const std::uint32_t at = place.member;
            members_[place.link][at].finish = held.served + flow.pending / flow.weight;
            swap_members(place.link, at, held.count++);
            break;
        }
    }
    for (std::int32_t link = 0; link < static_cast<std::int32_t>(link_.size()); ++link)
        if (!members_[link].empty()) recount(link);
    give_all_leftovers();
    for (std::int32_t link = 0; link < static_cast<std::int32_t>(link_.size()); ++link) rearm(link);
}

void Sharing::give_all_leftovers() {
    if (priorities_ == 1) return;
    for (std::int32_t base = 0; base < links_; ++base) {
        double left = base_[base];
        for (unsigned p = 0; p < priorities_; ++p) {
            const std::int32_t link = base + static_cast<std::int32_t>(p) * links_;
            held_[link].capacity = std::max(0.0, left);
            left -= load_of(link);
        }
    }
}

double Sharing::audit() {
    const Work before = work_;
    fill();
    work_ = before;
    double worst = 0;
    for (Slot slot = 0; slot < flows_.size(); ++slot) {
        if (!flows_[slot].live) continue;
        const double exact = full_rate_[slot], have = rate(slot);
        if (exact == have) continue;
        worst = std::max(worst, std::fabs(exact - have) / std::max(std::fabs(exact), std::fabs(have)));
    }
    return worst;
}

}  // namespace railwright::flow
