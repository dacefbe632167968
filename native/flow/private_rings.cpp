#include "flow/private_rings.hpp"

#include <algorithm>
#include <numeric>

namespace railwright::flow {

namespace {

constexpr std::uint32_t NONE = 0xffffffff;

}  // namespace

PrivateRings::PrivateRings(const Problem& problem) : in_(problem) {
    const std::size_t ops = in_.ops();
    if (!in_.link_change_time.empty() || !in_.reroute_time.empty()) return;
    std::vector<std::uint32_t> before(ops, NONE);
    bool any = false;
    for (std::size_t op = 0; op < ops; ++op) {
        if (in_.op_kind[op] != SEND || in_.op_repeat[op] < 2 || in_.flow_offset[op + 1] - in_.flow_offset[op] != 1) continue;
        std::uint32_t lagged = 0;
        for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w) {
            if (in_.wait_lag[w] < 0) continue;
            lagged += in_.wait_lag[w] == 1 ? 1 : 2;
            before[op] = in_.wait_op[w];
        }
        if (lagged != 1) before[op] = NONE;
        any |= before[op] != NONE;
    }
    if (!any) return;

    std::vector<std::uint8_t> crowded(in_.links(), 0);
    std::vector<std::uint8_t> seen(in_.links(), 0);
    for (std::size_t flow = 0; flow < in_.flows(); ++flow) {
        const std::int32_t path = in_.flow_path[flow];
        if (path < 0) continue;
        for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i) {
            crowded[in_.path_link[i]] |= seen[in_.path_link[i]];
            seen[in_.path_link[i]] = 1;
        }
    }
    // Groups are what the lagged waits join; one unfit member, or a follower from outside, spoils the group.
    std::vector<std::uint32_t> parent(ops);
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](std::uint32_t op) {
        while (parent[op] != op) op = parent[op] = parent[parent[op]];
        return op;
    };
    for (std::uint32_t op = 0; op < ops; ++op)
        for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
            if (in_.wait_lag[w] >= 0) parent[root(op)] = root(in_.wait_op[w]);
    std::vector<std::uint8_t> spoiled(ops, 0);
    for (std::uint32_t op = 0; op < ops; ++op) {
        bool fit = before[op] != NONE && in_.op_repeat[before[op]] == in_.op_repeat[op];
        if (fit) {
            const std::int32_t path = in_.flow_path[in_.flow_offset[op]];
            fit = path >= 0;
            if (fit)
                for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i) fit &= !crowded[in_.path_link[i]];
        }
        spoiled[root(op)] |= !fit;
    }
    group_.assign(ops, -1);
    ready_.assign(ops, 0);
    for (std::uint32_t op = 0; op < ops; ++op) {
        const std::uint32_t top = root(op);
        if (spoiled[top] || !(rate(op) > 0)) {
            spoiled[top] = 1;
        }
    }
    std::vector<std::int32_t> number(ops, -1);
    for (std::uint32_t op = 0; op < ops; ++op) {
        const std::uint32_t top = root(op);
        if (spoiled[top]) continue;
        if (number[top] < 0) {
            number[top] = static_cast<std::int32_t>(members_.size());
            members_.emplace_back();
        }
        group_[op] = number[top];
        members_[number[top]].push_back(op);
    }
    for (const std::vector<std::uint32_t>& members : members_) missing_.push_back(static_cast<std::uint32_t>(members.size()));
    before_ = std::move(before);
}

std::pair<std::int32_t, double> PrivateRings::bound(std::uint32_t op) const {
    const std::int32_t path = in_.flow_path[in_.flow_offset[op]];
    double least = in_.op_cap[op];
    std::pair<std::int32_t, double> which{-1, 1.0};
    for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i) {
        const double here = in_.capacity[in_.path_link[i]] / in_.path_share[i];
        if (here < least) {
            least = here;
            which = {in_.path_link[i], in_.path_share[i]};
        }
    }
    return which;
}

double PrivateRings::rate(std::uint32_t op) const {
    const auto [link, share] = bound(op);
    return link < 0 ? in_.op_cap[op] : in_.capacity[link] / share;
}

bool PrivateRings::ready(std::uint32_t op, double now) {
    ready_[op] = now;
    return --missing_[group_[op]] == 0;
}

std::vector<double> PrivateRings::finish(std::int32_t group, const std::function<void()>& poll) const {
    const std::vector<std::uint32_t>& members = members_[group];
    const std::size_t count = members.size();
    std::vector<double> latency(count), moving(count), left(count), next(count);
    std::vector<std::uint32_t> before(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto flow = static_cast<std::size_t>(in_.flow_offset[members[i]]);
        latency[i] = in_.flow_latency[flow];
        moving[i] = in_.flow_bytes[flow] / rate(members[i]);
        left[i] = ready_[members[i]] + moving[i];
        before[i] = static_cast<std::uint32_t>(
            std::lower_bound(members.begin(), members.end(), before_[members[i]]) - members.begin());
    }
    std::size_t done = 0;
    for (std::uint32_t k = 1; k < in_.op_repeat[members[0]]; ++k) {
        for (std::size_t i = 0; i < count; ++i) next[i] = std::max(left[i], left[before[i]] + latency[before[i]]) + moving[i];
        left.swap(next);
        done += count;
        if (done > 1u << 22) {
            poll();
            done = 0;
        }
    }
    for (std::size_t i = 0; i < count; ++i) left[i] += latency[i];
    return left;
}

}  // namespace railwright::flow
