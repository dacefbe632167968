#include "flow/fold.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "routing/hash.hpp"

namespace railwright::flow {

namespace {

using Hash = std::uint64_t;

// Finding the classes costs about as much as simulating each operation twice: it pays for repetitions, or hardly matters.
constexpr std::size_t FEW = 20000;
constexpr std::uint64_t WORTH = 4;

Hash bits(double value) {
    Hash out;
    std::memcpy(&out, &value, sizeof out);
    return out;
}

// Order matters.
Hash chain(Hash seed, Hash value) { return mix64(seed * 0x9e3779b97f4a7c15ULL + value + 0x7f4a7c15ULL); }

// Shares are sums of fractions; the last bits may differ between alike links.
double rounded(double share) { return static_cast<double>(static_cast<float>(share)); }

struct Entry {
    std::uint32_t element;  // operation (from a link) or link (from an operation)
    std::uint32_t number;   // of the flow inside its operation
    double share;
};

// Every flow's links, grouped by link.
struct LinkFlows {
    std::vector<std::int64_t> offset;
    std::vector<Entry> entry;
};

class Refiner {
  public:
    explicit Refiner(const Problem& problem) : in_(problem), ops_(problem.ops()), links_(problem.links()) {
        find_paths();
        group_by_link();
        group_followers();
    }

    Folding run() {
        const std::size_t all = ops_ + links_;
        colour_.resize(all);
        signature_.assign(all, 0);
        dirty_.resize(all);
        is_dirty_.assign(all, 1);
        for (std::size_t i = 0; i < all; ++i) dirty_[i] = static_cast<std::uint32_t>(i);
        first_colours();
        std::uint64_t work = 0;
        bool first = true;
        while (!dirty_.empty()) {
            work += dirty_.size();
            round(first);
            first = false;
            if (2 * op_colours() > ops_ && work > 4 * all) return {};
        }
        if (2 * op_colours() > ops_) return {};
        return number();
    }

  private:
    // Paths of flows, with those that flows change to later.
    void find_paths() {
        if (in_.reroute_flow.empty()) return;
        later_.resize(in_.flows());
        for (std::size_t i = 0; i < in_.reroute_flow.size(); ++i)
            later_[in_.reroute_flow[i]].push_back(static_cast<std::uint32_t>(i));
    }

    template <class Visit>
    void each_hop(std::int64_t flow, Visit visit) const {
        const auto walk = [&](std::int32_t path, Hash era) {
            if (path < 0) return;
            for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i)
                visit(in_.path_link[i], in_.path_share[i], era);
        };
        walk(in_.flow_path[flow], 0);
        if (later_.empty()) return;
        for (const std::uint32_t i : later_[flow]) walk(in_.reroute_path[i], chain(1, bits(in_.reroute_time[i])));
    }

    void group_by_link() {
        by_link_.offset.assign(links_ + 1, 0);
        for (std::size_t flow = 0; flow < in_.flows(); ++flow)
            each_hop(static_cast<std::int64_t>(flow), [&](std::int32_t link, double, Hash) { ++by_link_.offset[link + 1]; });
        for (std::size_t link = 0; link < links_; ++link) by_link_.offset[link + 1] += by_link_.offset[link];
        by_link_.entry.resize(by_link_.offset[links_]);
        if (!later_.empty()) era_.resize(by_link_.entry.size());
        std::vector<std::int64_t> fill(by_link_.offset.begin(), by_link_.offset.end() - 1);
        for (std::size_t op = 0; op < ops_; ++op)
            for (std::int64_t flow = in_.flow_offset[op]; flow < in_.flow_offset[op + 1]; ++flow)
                each_hop(flow, [&](std::int32_t link, double share, Hash era) {
                    const std::int64_t at = fill[link]++;
                    by_link_.entry[at] = {static_cast<std::uint32_t>(op),
                                          static_cast<std::uint32_t>(flow - in_.flow_offset[op]), rounded(share)};
                    if (!later_.empty()) era_[at] = era;
                });
    }

    void group_followers() {
        follower_offset_.assign(ops_ + 1, 0);
        for (const std::uint32_t on : in_.wait_op) ++follower_offset_[on + 1];
        for (std::size_t op = 0; op < ops_; ++op) follower_offset_[op + 1] += follower_offset_[op];
        follower_.resize(in_.wait_op.size());
        std::vector<std::int64_t> fill(follower_offset_.begin(), follower_offset_.end() - 1);
        for (std::size_t op = 0; op < ops_; ++op)
            for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
                follower_[fill[in_.wait_op[w]]++] = static_cast<std::uint32_t>(op);
    }

    void first_colours() {
        std::unordered_map<Hash, std::uint32_t> known;
        const auto colour_of = [&](Hash hash) {
            return known.try_emplace(hash, static_cast<std::uint32_t>(known.size())).first->second;
        };
        for (std::size_t op = 0; op < ops_; ++op) {
            Hash hash = chain(2, in_.op_kind[op]);
            for (const double value : {in_.op_duration[op], in_.op_start[op], in_.op_weight[op], in_.op_cap[op], in_.op_handover[op]})
                hash = chain(hash, bits(value));
            hash = chain(chain(hash, in_.op_priority[op]), in_.op_repeat[op]);
            for (std::int64_t flow = in_.flow_offset[op]; flow < in_.flow_offset[op + 1]; ++flow) {
                hash = chain(chain(hash, bits(in_.flow_bytes[flow])), bits(in_.flow_latency[flow]));
                hash = chain(hash, in_.flow_path[flow] < 0);
                if (later_.empty()) continue;
                for (const std::uint32_t i : later_[flow]) {
                    hash = chain(chain(hash, bits(in_.reroute_time[i])), bits(in_.reroute_latency[i]));
                    hash = chain(hash, in_.reroute_path[i] < 0);
                }
            }
            colour_[op] = colour_of(hash);
        }
        std::vector<Hash> history(links_, 3);
        for (std::size_t i = 0; i < in_.link_change_link.size(); ++i) {
            Hash& hash = history[in_.link_change_link[i]];
            hash = chain(chain(hash, bits(in_.link_change_time[i])), bits(in_.link_change_capacity[i]));
        }
        for (std::size_t link = 0; link < links_; ++link)
            colour_[ops_ + link] = colour_of(chain(history[link], bits(in_.capacity[link])));
        count_.assign(known.size(), 0);
        for (const std::uint32_t colour : colour_) ++count_[colour];
        op_colours_ = 0;
        std::vector<std::uint8_t> seen(known.size(), 0);
        for (std::size_t op = 0; op < ops_; ++op) {
            op_colours_ += !seen[colour_[op]];
            seen[colour_[op]] = 1;
        }
    }

    // What tells apart two hops over links of one class (or two flows of one class on a link).
    Hash kind_of_hop(Hash number, double share, Hash era) const {
        if (number == last_number_ && share == last_share_ && era == last_era_) return last_kind_;
        last_number_ = number;
        last_share_ = share;
        last_era_ = era;
        return last_kind_ = chain(chain(5 + number, bits(share)), era);
    }

    Hash signature(std::uint32_t element) const {
        Hash sum = 0;
        if (element < ops_) {
            const std::uint32_t op = element;
            for (std::int64_t flow = in_.flow_offset[op]; flow < in_.flow_offset[op + 1]; ++flow) {
                const Hash number = static_cast<Hash>(flow - in_.flow_offset[op]);
                each_hop(flow, [&](std::int32_t link, double share, Hash era) {
                    sum += chain(kind_of_hop(number, rounded(share), era), colour_[ops_ + link]);
                });
            }
            for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
                sum += chain(chain(4, colour_[in_.wait_op[w]]), static_cast<Hash>(in_.wait_lag[w] + 2));
            return sum;
        }
        const std::uint32_t link = element - static_cast<std::uint32_t>(ops_);
        for (std::int64_t i = by_link_.offset[link]; i < by_link_.offset[link + 1]; ++i) {
            const Entry& entry = by_link_.entry[i];
            sum += chain(kind_of_hop(entry.number, entry.share, later_.empty() ? 0 : era_[i]), colour_[entry.element]);
        }
        return sum;
    }

    // Recompute what has a neighbour of a new colour, and split classes whose members differ. The part of a class whose
    // signature stays keeps the colour (else the largest part does), so that few neighbours must be looked at again.
    void round(bool first) {
        struct Seen {
            std::uint32_t colour;
            Hash signature;
            std::uint32_t element;
        };
        std::vector<Seen> seen;
        seen.reserve(dirty_.size());
        for (const std::uint32_t element : dirty_) {
            is_dirty_[element] = 0;
            const Hash now = signature(element);
            if (!first && now == signature_[element]) continue;
            seen.push_back({colour_[element], now, element});
        }
        dirty_.clear();
        std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
            return std::tie(a.colour, a.signature, a.element) < std::tie(b.colour, b.signature, b.element);
        });
        std::vector<std::uint32_t> moved;
        for (std::size_t begin = 0; begin < seen.size();) {
            std::size_t end = begin, best = begin, best_size = 0;
            while (end < seen.size() && seen[end].colour == seen[begin].colour) {
                std::size_t stop = end;
                while (stop < seen.size() && seen[stop].colour == seen[end].colour && seen[stop].signature == seen[end].signature)
                    ++stop;
                if (stop - end > best_size) {
                    best = end;
                    best_size = stop - end;
                }
                end = stop;
            }
            const std::uint32_t old = seen[begin].colour;
            const bool whole = end - begin == count_[old];
            for (std::size_t at = begin; at < end;) {
                std::size_t stop = at;
                while (stop < end && seen[stop].signature == seen[at].signature) ++stop;
                const bool keeps = whole && at == best;
                std::uint32_t colour = old;
                if (!keeps) {
                    colour = static_cast<std::uint32_t>(count_.size());
                    count_.push_back(static_cast<std::uint32_t>(stop - at));
                    count_[old] -= static_cast<std::uint32_t>(stop - at);
                    op_colours_ += seen[at].element < ops_;
                }
                for (; at < stop; ++at) {
                    signature_[seen[at].element] = seen[at].signature;
                    if (keeps) continue;
                    colour_[seen[at].element] = colour;
                    moved.push_back(seen[at].element);
                }
            }
            begin = end;
        }
        for (const std::uint32_t element : moved) spread(element);
    }

    void spread(std::uint32_t element) {
        if (element >= ops_) {
            const std::size_t link = element - ops_;
            for (std::int64_t i = by_link_.offset[link]; i < by_link_.offset[link + 1]; ++i)
                make_dirty(by_link_.entry[i].element);
            return;
        }
        for (std::int64_t flow = in_.flow_offset[element]; flow < in_.flow_offset[element + 1]; ++flow)
            each_hop(flow, [&](std::int32_t link, double, Hash) { make_dirty(static_cast<std::uint32_t>(ops_ + link)); });
        for (std::int64_t i = follower_offset_[element]; i < follower_offset_[element + 1]; ++i) make_dirty(follower_[i]);
    }

    void make_dirty(std::uint32_t element) {
        if (is_dirty_[element]) return;
        is_dirty_[element] = 1;
        dirty_.push_back(element);
    }

    std::size_t op_colours() const { return op_colours_; }

    // Classes in the order of their first members, so that the result does not depend on how colours came about.
    Folding number() const {
        Folding out;
        out.useful = true;
        out.op_class.resize(ops_);
        out.link_class.assign(links_, Folding::NO_CLASS);
        std::vector<std::uint32_t> renamed(count_.size(), Folding::NO_CLASS);
        for (std::size_t op = 0; op < ops_; ++op) {
            std::uint32_t& name = renamed[colour_[op]];
            if (name == Folding::NO_CLASS) name = out.op_classes++;
            out.op_class[op] = name;
        }
        for (std::size_t link = 0; link < links_; ++link) {
            if (by_link_.offset[link] == by_link_.offset[link + 1]) continue;
            std::uint32_t& name = renamed[colour_[ops_ + link]];
            if (name == Folding::NO_CLASS) name = out.link_classes++;
            out.link_class[link] = name;
        }
        return out;
    }

    const Problem& in_;
    const std::size_t ops_, links_;
    std::vector<std::vector<std::uint32_t>> later_;  // per flow: its reroutes
    LinkFlows by_link_;
    std::vector<Hash> era_;
    std::vector<std::int64_t> follower_offset_;
    std::vector<std::uint32_t> follower_;
    std::vector<std::uint32_t> colour_, count_, dirty_;
    std::vector<Hash> signature_;
    std::vector<std::uint8_t> is_dirty_;
    std::size_t op_colours_ = 0;
    mutable Hash last_number_ = ~Hash{0}, last_era_ = 0, last_kind_ = 0;
    mutable double last_share_ = 0;
};

// Builds the quotient's paths: for a flow of the representative operation, every class of links it crosses, with the number of
// flows of its class on one link of that class.
class Quotient {
  public:
    Quotient(const Problem& in, const Folding& folding) : in_(in), folding_(folding) {}

    Problem make() {
        Problem out;
        pick_representatives();
        out.capacity.resize(folding_.link_classes);
        for (std::uint32_t c = 0; c < folding_.link_classes; ++c) out.capacity[c] = in_.capacity[link_of_[c]];
        count_shares();
        out.path_offset.push_back(0);
        out.flow_offset.push_back(0);
        out.wait_offset.push_back(0);
        std::vector<std::vector<std::uint32_t>> later(in_.flows());
        for (std::size_t i = 0; i < in_.reroute_flow.size(); ++i) later[in_.reroute_flow[i]].push_back(static_cast<std::uint32_t>(i));
        std::vector<std::pair<std::uint32_t, std::uint32_t>> reroutes;  // (index in the original, new flow)
        for (const std::uint32_t op : op_of_) {
            out.op_kind.push_back(in_.op_kind[op]);
            out.op_duration.push_back(in_.op_duration[op]);
            out.op_start.push_back(in_.op_start[op]);
            out.op_weight.push_back(in_.op_weight[op]);
            out.op_cap.push_back(in_.op_cap[op]);
            out.op_handover.push_back(in_.op_handover[op]);
            out.op_priority.push_back(in_.op_priority[op]);
            out.op_repeat.push_back(in_.op_repeat[op]);
            for (std::int64_t flow = in_.flow_offset[op]; flow < in_.flow_offset[op + 1]; ++flow) {
                const auto number = static_cast<std::uint32_t>(flow - in_.flow_offset[op]);
                for (const std::uint32_t i : later[flow])
                    reroutes.emplace_back(i, static_cast<std::uint32_t>(out.flow_path.size()));
                out.flow_path.push_back(add_path(out, in_.flow_path[flow], op, number, -1));
                out.flow_bytes.push_back(in_.flow_bytes[flow]);
                out.flow_latency.push_back(in_.flow_latency[flow]);
            }
            out.flow_offset.push_back(static_cast<std::int64_t>(out.flow_path.size()));
            std::vector<std::pair<std::uint32_t, std::int8_t>> waits;
            for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
                waits.emplace_back(folding_.op_class[in_.wait_op[w]], in_.wait_lag[w]);
            std::sort(waits.begin(), waits.end());
            waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
            for (const auto& [on, lag] : waits) {
                out.wait_op.push_back(on);
                out.wait_lag.push_back(lag);
            }
            out.wait_offset.push_back(static_cast<std::int64_t>(out.wait_op.size()));
        }
        std::sort(reroutes.begin(), reroutes.end());
        for (const auto& [i, flow] : reroutes) {
            const std::uint32_t op = owner_of(in_.reroute_flow[i]);
            const auto number = static_cast<std::uint32_t>(in_.reroute_flow[i] - in_.flow_offset[op]);
            out.reroute_time.push_back(in_.reroute_time[i]);
            out.reroute_flow.push_back(flow);
            out.reroute_path.push_back(add_path(out, in_.reroute_path[i], op, number, static_cast<std::int64_t>(i)));
            out.reroute_latency.push_back(in_.reroute_latency[i]);
        }
        for (std::size_t i = 0; i < in_.link_change_link.size(); ++i) {
            const std::uint32_t c = folding_.link_class[in_.link_change_link[i]];
            if (c == Folding::NO_CLASS || link_of_[c] != static_cast<std::uint32_t>(in_.link_change_link[i])) continue;
            out.link_change_time.push_back(in_.link_change_time[i]);
            out.link_change_link.push_back(static_cast<std::int32_t>(c));
            out.link_change_capacity.push_back(in_.link_change_capacity[i]);
        }
        return out;
    }

  private:
    // (link class, operation class, number of the flow, time of the path): flows of that kind per link.
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, double>;

    void pick_representatives() {
        op_of_.assign(folding_.op_classes, Folding::NO_CLASS);
        link_of_.assign(folding_.link_classes, Folding::NO_CLASS);
        for (std::size_t op = in_.ops(); op-- > 0;) op_of_[folding_.op_class[op]] = static_cast<std::uint32_t>(op);
        for (std::size_t link = in_.links(); link-- > 0;)
            if (folding_.link_class[link] != Folding::NO_CLASS) link_of_[folding_.link_class[link]] = static_cast<std::uint32_t>(link);
    }

    void count_shares() {
        const auto add = [&](std::int32_t path, std::uint32_t op, std::uint32_t number, double time) {
            if (path < 0) return;
            for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i) {
                const std::uint32_t c = folding_.link_class[in_.path_link[i]];
                if (link_of_[c] == static_cast<std::uint32_t>(in_.path_link[i]))
                    shares_[{c, folding_.op_class[op], number, time}] += in_.path_share[i];
            }
        };
        for (std::size_t op = 0; op < in_.ops(); ++op)
            for (std::int64_t flow = in_.flow_offset[op]; flow < in_.flow_offset[op + 1]; ++flow)
                add(in_.flow_path[flow], static_cast<std::uint32_t>(op), static_cast<std::uint32_t>(flow - in_.flow_offset[op]), -1);
        for (std::size_t i = 0; i < in_.reroute_flow.size(); ++i) {
            const std::uint32_t op = owner_of(in_.reroute_flow[i]);
            add(in_.reroute_path[i], op, static_cast<std::uint32_t>(in_.reroute_flow[i] - in_.flow_offset[op]), in_.reroute_time[i]);
        }
    }

    std::uint32_t owner_of(std::uint32_t flow) const {
        const auto after = std::upper_bound(in_.flow_offset.begin(), in_.flow_offset.end(), static_cast<std::int64_t>(flow));
        return static_cast<std::uint32_t>(after - in_.flow_offset.begin() - 1);
    }

    std::int32_t add_path(Problem& out, std::int32_t path, std::uint32_t op, std::uint32_t number, std::int64_t reroute) {
        if (path < 0) return -1;
        std::vector<std::uint32_t> classes;
        for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i)
            classes.push_back(folding_.link_class[in_.path_link[i]]);
        std::sort(classes.begin(), classes.end());
        classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
        const double time = reroute < 0 ? -1 : in_.reroute_time[reroute];
        for (const std::uint32_t c : classes) {
            out.path_link.push_back(static_cast<std::int32_t>(c));
            out.path_share.push_back(shares_.at({c, folding_.op_class[op], number, time}));
        }
        out.path_offset.push_back(static_cast<std::int64_t>(out.path_link.size()));
        return static_cast<std::int32_t>(out.path_offset.size() - 2);
    }

    const Problem& in_;
    const Folding& folding_;
    std::vector<std::uint32_t> op_of_, link_of_;
    std::map<Key, double> shares_;
};

}  // namespace

Folding fold(const Problem& problem) {
    std::uint64_t repetitions = 0;
    for (const std::uint32_t repeat : problem.op_repeat) repetitions += repeat;
    if (problem.ops() > FEW && repetitions < WORTH * problem.ops()) return {};
    return Refiner(problem).run();
}

Problem quotient(const Problem& problem, const Folding& folding) { return Quotient(problem, folding).make(); }

}  // namespace railwright::flow
