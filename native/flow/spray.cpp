#include "flow/spray.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "routing/hash.hpp"

namespace railwright::flow {

namespace {

using Shares = std::vector<std::pair<std::int32_t, double>>;  // link or node, share

struct Segment {
    bool reached = true;
    Shares links;   // between switches
    Shares ends;    // switches next to the destination
};

class Sprayer {
  public:
    Sprayer(const NetworkView& view, Routes& routes, const double* weight) : view_(view), routes_(routes), weight_(weight) {}

    SprayPaths run(const std::int32_t* src, const std::int32_t* dst, std::size_t pairs, bool bundle) {
        SprayPaths out;
        out.stands_for.resize(view_.links);
        for (std::int32_t link = 0; link < view_.links; ++link) out.stands_for[link] = link;
        std::vector<Part> parts;
        std::vector<std::size_t> first(pairs + 1, 0);
        for (std::size_t i = 0; i < pairs; ++i) {
            start(src[i], dst[i], parts);
            first[i + 1] = parts.size();
        }
        if (bundle) join_alike(out.stands_for);
        out.offset.assign(pairs + 1, 0);
        for (std::size_t i = 0; i < pairs; ++i) {
            if (!append(src[i], dst[i], parts.data() + first[i], parts.data() + first[i + 1], out))
                out.unreachable.push_back(static_cast<std::int64_t>(i));
            out.offset[i + 1] = static_cast<std::int64_t>(out.link.size());
        }
        return out;
    }

  private:
    static constexpr std::int32_t NO_SEGMENT = -1, INSIDE = -2;

    // The traffic that leaves the source over one link, and the way from that link's switch on (`NO_SEGMENT`: the link ends at
    // the destination; `INSIDE`: the link leads to the common scale-up switch).
    struct Part {
        std::int32_t link;
        double share;
        std::int32_t segment;
    };

    void start(std::int32_t src, std::int32_t dst, std::vector<Part>& parts) {
        if (src == dst) return;
        if (const std::int32_t middle = routes_.shared_scale_up(src, dst); middle >= 0) {
            parts.push_back({first_between(src, middle), 1.0, INSIDE});
            return;
        }
        const LinkSpan hops = routes_.next_hops(src, dst);
        const std::vector<std::int32_t> first(hops.begin(), hops.end());
        double sum = 0;
        for (const std::int32_t link : first) sum += weight_[link];
        for (const std::int32_t link : first) {
            const std::int32_t next = view_.link_dst[link];
            parts.push_back({link, weight_[link] / sum, next == dst ? NO_SEGMENT : segment(next, dst)});
        }
    }

    std::int32_t first_between(std::int32_t a, std::int32_t b) const {
        for (const std::int32_t link : routes_.out_links(a))
            if (view_.link_dst[link] == b && routes_.usable(link)) return link;
        return -1;
    }

    std::int32_t attachment(std::int32_t dst) {
        const auto [known, fresh] = attachment_of_.try_emplace(dst, -1);
        if (!fresh) return known->second;
        std::vector<std::int32_t> switches;
        for (const std::int32_t link : routes_.in_links(dst))
            if (routes_.usable(link) && view_.node_kind[view_.link_src[link]] == SWITCH) switches.push_back(view_.link_src[link]);
        std::sort(switches.begin(), switches.end());
        switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
        const std::string key(reinterpret_cast<const char*>(switches.data()), switches.size() * sizeof(std::int32_t));
        known->second = attachments_.try_emplace(key, static_cast<std::int32_t>(attachments_.size())).first->second;
        return known->second;
    }

    std::int32_t segment(std::int32_t from, std::int32_t dst) {
        const auto [known, fresh] = segment_of_.try_emplace({from, attachment(dst)}, static_cast<std::int32_t>(segments_.size()));
        if (fresh) segments_.push_back(follow(from, dst));
        return known->second;
    }

    // All shortest ways from switch `from` to the switches next to `dst`, level by level.
    Segment follow(std::int32_t from, std::int32_t dst) {
        Segment out;
        std::map<std::int32_t, double> level{{from, 1.0}};
        std::map<std::int32_t, double> links, ends;
        while (!level.empty()) {
            std::map<std::int32_t, double> next;
            for (const auto& [node, share] : level) {
                const std::uint8_t left = routes_.distance(node, dst);
                if (left == Routes::FAR) {
                    out.reached = false;
                    return out;
                }
                if (left == 1) {
                    ends[node] += share;
                    continue;
                }
                const LinkSpan hops = routes_.next_hops(node, dst);
                double sum = 0;
                for (const std::int32_t link : hops) sum += weight_[link];
                for (const std::int32_t link : hops) {
                    const double part = share * weight_[link] / sum;
                    links[link] += part;
                    next[view_.link_dst[link]] += part;
                }
            }
            level = std::move(next);
        }
        out.links.assign(links.begin(), links.end());
        out.ends.assign(ends.begin(), ends.end());
        return out;
    }

    void join_alike(std::vector<std::int32_t>& stands_for) {
        std::vector<std::uint64_t> signature(view_.links, 0);
        const auto mixed = [](std::uint64_t a, double b) {
            const auto rounded = static_cast<double>(static_cast<float>(b));
            std::uint64_t bits;
            std::memcpy(&bits, &rounded, sizeof bits);
            return mix64(a * 0x9e3779b97f4a7c15ULL + mix64(bits));
        };
        for (std::size_t s = 0; s < segments_.size(); ++s)
            for (const auto& [link, share] : segments_[s].links) signature[link] += mixed(s + 1, share);
        std::map<std::pair<std::uint64_t, double>, std::int32_t> first;
        for (std::int32_t link = 0; link < view_.links; ++link)
            if (signature[link]) stands_for[link] = first.try_emplace({signature[link], weight_[link]}, link).first->second;
        for (Segment& segment : segments_) {
            std::map<std::int32_t, double> joined;
            for (const auto& [link, share] : segment.links) joined[stands_for[link]] += share;
            segment.links.assign(joined.begin(), joined.end());
        }
    }

    bool append(std::int32_t src, std::int32_t dst, const Part* part, const Part* end, SprayPaths& out) {
        if (src == dst) return true;
        const std::size_t begin = out.link.size();
        const auto add = [&](std::int32_t link, double share) {
            out.link.push_back(link);
            out.share.push_back(share);
        };
        const bool any = part != end;
        for (; part != end; ++part) {
            add(part->link, part->share);
            if (part->segment == INSIDE) {
                // The way down is the reverse of the destination's way up.
                const std::int32_t middle = view_.link_dst[part->link];
                for (const std::int32_t link : routes_.in_links(dst))
                    if (view_.link_src[link] == middle && routes_.usable(link)) {
                        add(link, 1.0);
                        break;
                    }
                return true;
            }
            if (part->segment == NO_SEGMENT) continue;
            const Segment& segment = segments_[part->segment];
            if (!segment.reached) {
                out.link.resize(begin);
                out.share.resize(begin);
                return false;
            }
            for (const auto& [link, share] : segment.links) add(link, part->share * share);
            for (const auto& [node, share] : segment.ends) {
                const LinkSpan last = routes_.next_hops(node, dst);
                double sum = 0;
                for (const std::int32_t link : last) sum += weight_[link];
                for (const std::int32_t link : last) add(link, part->share * share * weight_[link] / sum);
            }
        }
        join_equal(out, begin);
        return any;
    }

    // Parts of one pair may meet again on a link.
    static void join_equal(SprayPaths& out, std::size_t begin) {
        const std::size_t count = out.link.size() - begin;
        if (count <= 4) {
            bool distinct = true;
            for (std::size_t i = begin; i < out.link.size(); ++i)
                for (std::size_t j = i + 1; j < out.link.size(); ++j) distinct &= out.link[i] != out.link[j];
            if (distinct) return;
        }
        Shares all;
        for (std::size_t i = begin; i < out.link.size(); ++i) all.emplace_back(out.link[i], out.share[i]);
        std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        std::size_t at = begin;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i && all[i].first == all[i - 1].first) {
                out.share[at - 1] += all[i].second;
                continue;
            }
            out.link[at] = all[i].first;
            out.share[at++] = all[i].second;
        }
        out.link.resize(at);
        out.share.resize(at);
    }

    const NetworkView& view_;
    Routes& routes_;
    const double* weight_;
    std::unordered_map<std::int32_t, std::int32_t> attachment_of_;
    std::unordered_map<std::string, std::int32_t> attachments_;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> segment_of_;
    std::vector<Segment> segments_;
};

}  // namespace

SprayPaths spray(const NetworkView& network, Routes& routes, const double* weight, const std::int32_t* src,
                 const std::int32_t* dst, std::size_t pairs, bool bundle) {
    return Sprayer(network, routes, weight).run(src, dst, pairs, bundle);
}

}  // namespace railwright::flow
