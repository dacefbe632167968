#include "routing/routes.hpp"

#include <algorithm>

namespace railwright {

namespace {

std::string key_of(const std::vector<std::int32_t>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t)};
}

void group_links(std::int32_t nodes, std::int32_t links, const std::int32_t* end_of, std::vector<std::uint32_t>& offset,
                 std::vector<std::int32_t>& grouped) {
    offset.assign(static_cast<std::size_t>(nodes) + 1, 0);
    grouped.resize(static_cast<std::size_t>(links));
    for (std::int32_t link = 0; link < links; ++link) ++offset[end_of[link] + 1];
    for (std::int32_t node = 0; node < nodes; ++node) offset[node + 1] += offset[node];
    std::vector<std::uint32_t> fill(offset.begin(), offset.end() - 1);
    for (std::int32_t link = 0; link < links; ++link) grouped[fill[end_of[link]]++] = link;
}

}  // namespace

Routes::Routes(const NetworkView& network, const std::uint8_t* link_up, const std::uint8_t* node_up) : view_(network) {
    group_links(view_.nodes, view_.links, view_.link_src, out_offset_, out_);
    group_links(view_.nodes, view_.links, view_.link_dst, in_offset_, in_);
    link_up_.assign(view_.links, 1);
    node_up_.assign(view_.nodes, 1);
    if (link_up) std::copy(link_up, link_up + view_.links, link_up_.begin());
    if (node_up) std::copy(node_up, node_up + view_.nodes, node_up_.begin());
    switch_index_.assign(view_.nodes, -1);
    for (std::int32_t node = 0; node < view_.nodes; ++node)
        if (view_.node_kind[node] == SWITCH) switch_index_[node] = switches_++;
    table_of_host_.assign(view_.nodes, -1);
}

void Routes::forget() {
    std::fill(table_of_host_.begin(), table_of_host_.end(), -1);
    table_by_attachment_.clear();
    tables_.clear();
    set_index_.clear();
    sets_.clear();
}

void Routes::set_link(std::int32_t link, bool up) {
    link_up_[link] = up;
    forget();
}

void Routes::set_node(std::int32_t node, bool up) {
    node_up_[node] = up;
    forget();
}

Routes::Table& Routes::table_of(std::int32_t dst) {
    std::int32_t& index = table_of_host_[dst];
    if (index >= 0) return tables_[index];
    std::vector<std::int32_t> attached;
    for (const std::int32_t link : in_links(dst))
        if (usable(link) && view_.node_kind[view_.link_src[link]] == SWITCH) attached.push_back(view_.link_src[link]);
    std::sort(attached.begin(), attached.end());
    attached.erase(std::unique(attached.begin(), attached.end()), attached.end());
    const auto [found, fresh] = table_by_attachment_.try_emplace(key_of(attached), static_cast<std::int32_t>(tables_.size()));
    index = found->second;
    if (fresh) {
        tables_.emplace_back();
        build(tables_.back(), attached);
    }
    return tables_[index];
}

void Routes::build(Table& table, const std::vector<std::int32_t>& attached) {
    table.hops.assign(switches_, FAR);
    table.next_set.assign(switches_, -1);
    std::vector<std::int32_t> queue(attached);
    for (const std::int32_t node : queue) table.hops[switch_index_[node]] = 1;
    for (std::size_t head = 0; head < queue.size(); ++head) {
        const std::int32_t node = queue[head];
        const std::uint8_t next = table.hops[switch_index_[node]] + 1;
        if (next == FAR) break;
        for (const std::int32_t link : in_links(node)) {
            const std::int32_t other = view_.link_src[link];
            if (view_.node_kind[other] != SWITCH || !usable(link)) continue;
            std::uint8_t& hops = table.hops[switch_index_[other]];
            if (hops != FAR) continue;
            hops = next;
            queue.push_back(other);
        }
    }
}

std::int32_t Routes::intern(std::vector<std::int32_t>&& links) {
    const auto [found, fresh] = set_index_.try_emplace(key_of(links), static_cast<std::int32_t>(sets_.size()));
    if (fresh) sets_.push_back(std::move(links));
    return found->second;
}

LinkSpan Routes::last_hops(std::int32_t node, std::int32_t dst) {
    scratch_.clear();
    for (const std::int32_t link : in_links(dst))
        if (view_.link_src[link] == node && usable(link)) scratch_.push_back(link);
    return {scratch_.data(), static_cast<std::uint32_t>(scratch_.size())};
}

LinkSpan Routes::host_next_hops(std::int32_t node, std::int32_t dst) {
    if (const LinkSpan direct = last_hops(node, dst); direct.size) return direct;
    const Table& table = table_of(dst);
    std::uint8_t best = FAR;
    scratch_.clear();
    for (const std::int32_t link : out_links(node)) {
        const std::int32_t index = switch_index_[view_.link_dst[link]];
        if (index < 0 || !usable(link) || table.hops[index] == FAR || table.hops[index] > best) continue;
        if (table.hops[index] < best) scratch_.clear();
        best = table.hops[index];
        scratch_.push_back(link);
    }
    return {scratch_.data(), static_cast<std::uint32_t>(scratch_.size())};
}

LinkSpan Routes::next_hops(std::int32_t node, std::int32_t dst) {
    const std::int32_t index = switch_index_[node];
    if (index < 0) return host_next_hops(node, dst);
    Table& table = table_of(dst);
    const std::uint8_t hops = table.hops[index];
    if (hops == FAR) return {};
    if (hops == 1) return last_hops(node, dst);
    std::int32_t& set = table.next_set[index];
    if (set < 0) {
        std::vector<std::int32_t> links;
        for (const std::int32_t link : out_links(node)) {
            const std::int32_t next = switch_index_[view_.link_dst[link]];
            if (next >= 0 && table.hops[next] == hops - 1 && usable(link)) links.push_back(link);
        }
        set = intern(std::move(links));
    }
    return {sets_[set].data(), static_cast<std::uint32_t>(sets_[set].size())};
}

std::uint8_t Routes::distance(std::int32_t node, std::int32_t dst) {
    if (node == dst) return 0;
    const std::int32_t index = switch_index_[node];
    if (index >= 0) return table_of(dst).hops[index];
    const LinkSpan hops = host_next_hops(node, dst);
    if (!hops.size) return FAR;
    const std::int32_t next = view_.link_dst[hops.data[0]];
    return next == dst ? 1 : static_cast<std::uint8_t>(table_of(dst).hops[switch_index_[next]] + 1);
}

std::int32_t Routes::link_between(std::int32_t a, std::int32_t b) const {
    for (const std::int32_t link : out_links(a))
        if (view_.link_dst[link] == b && usable(link)) return link;
    return -1;
}

std::int32_t Routes::shared_scale_up(std::int32_t a, std::int32_t b) const {
    for (const std::int32_t link : out_links(a)) {
        const std::int32_t middle = view_.link_dst[link];
        if (view_.node_kind[middle] == SCALE_UP && usable(link) && link_between(middle, b) >= 0) return middle;
    }
    return -1;
}

// The GPU of the same server from which `dst` is nearest: `src` itself unless another one saves a hop.
std::int32_t Routes::rail_entry(std::int32_t src, std::int32_t dst) {
    std::int32_t best = src;
    std::uint8_t best_hops = distance(src, dst);
    for (const std::int32_t up : out_links(src)) {
        const std::int32_t middle = view_.link_dst[up];
        if (view_.node_kind[middle] != SCALE_UP || !usable(up)) continue;
        for (const std::int32_t down : out_links(middle)) {
            const std::int32_t peer = view_.link_dst[down];
            if (view_.node_kind[peer] != HOST || !usable(down)) continue;
            const std::uint8_t hops = distance(peer, dst);
            if (hops < best_hops) {
                best = peer;
                best_hops = hops;
            }
        }
    }
    return best;
}

bool Routes::path(std::int32_t src, std::int32_t dst, std::uint32_t entropy, PathMode mode, std::uint64_t seed, bool scale_up,
                  std::vector<std::int32_t>& path) {
    if (src == dst) return true;
    const std::size_t start = path.size();
    if (scale_up) {
        const std::int32_t middle = shared_scale_up(src, dst);
        if (middle >= 0) {
            path.push_back(link_between(src, middle));
            path.push_back(link_between(middle, dst));
            return true;
        }
    }
    std::int32_t node = src;
    if (mode == PathMode::RAIL) {
        node = rail_entry(src, dst);
        if (node != src) {
            const std::int32_t middle = shared_scale_up(src, node);
            path.push_back(link_between(src, middle));
            path.push_back(link_between(middle, node));
        }
    }
    while (node != dst) {
        const LinkSpan hops = next_hops(node, dst);
        if (!hops.size) {
            path.resize(start);
            return false;
        }
        const std::uint64_t own = switch_seed(seed, node, mode == PathMode::POLARISED);
        const std::uint32_t hash = ecmp_hash(static_cast<std::uint32_t>(src), static_cast<std::uint32_t>(dst), entropy, own);
        const std::int32_t link = hops.data[ecmp_pick(hash, hops.size)];
        path.push_back(link);
        node = view_.link_dst[link];
    }
    return true;
}

}  // namespace railwright
