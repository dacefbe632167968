// Shortest-hop next-hop sets of a network, shared by the packet and the flow engine.
//
// Hosts and scale-up switches never carry transit. All hosts below the same switches share one table of distances, built at
// the first use of such a destination, and next-hop sets are made per (table, switch) on first use and interned: memory is
// (attachment sets) x (switches), never hosts squared.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "routing/hash.hpp"

namespace railwright {

enum NodeKind : std::uint8_t { HOST = 0, SWITCH = 1, SCALE_UP = 2 };

// A borrowed view of `simulate.network.Network`; the arrays outlive every user.
struct NetworkView {
    std::int32_t nodes = 0;
    std::int32_t links = 0;
    const std::uint8_t* node_kind = nullptr;
    const std::int32_t* link_src = nullptr;
    const std::int32_t* link_dst = nullptr;
};

struct LinkSpan {
    const std::int32_t* data = nullptr;
    std::uint32_t size = 0;
    const std::int32_t* begin() const { return data; }
    const std::int32_t* end() const { return data + size; }
};

enum class PathMode : std::uint8_t {
    ECMP,       // own seed per switch
    POLARISED,  // one seed for all switches
    RAIL,       // enter the network at the server's GPU that is nearest to the destination (same rail), then ECMP
};

class Routes {
  public:
    // `link_up` and `node_up` may be null: everything works.
    Routes(const NetworkView& network, const std::uint8_t* link_up, const std::uint8_t* node_up);

    // Links out of `node`, one hop nearer to host `dst`; empty when there is none. Valid until the next `fail`/`repair`.
    LinkSpan next_hops(std::int32_t node, std::int32_t dst);

    // Hops left from `node` to host `dst` (links to cross), or `FAR` when unreachable.
    static constexpr std::uint8_t FAR = 255;
    std::uint8_t distance(std::int32_t node, std::int32_t dst);

    // The scale-up switch common to two hosts, or -1.
    std::int32_t shared_scale_up(std::int32_t a, std::int32_t b) const;

    // Append the directed links from `src` to `dst` to `path`; false when unreachable (then nothing is appended).
    bool path(std::int32_t src, std::int32_t dst, std::uint32_t entropy, PathMode mode, std::uint64_t seed, bool scale_up,
              std::vector<std::int32_t>& path);

    // Take links in or out of service; forgets every table.
    void set_link(std::int32_t link, bool up);
    void set_node(std::int32_t node, bool up);

    LinkSpan out_links(std::int32_t node) const {
        return {out_.data() + out_offset_[node], out_offset_[node + 1] - out_offset_[node]};
    }
    LinkSpan in_links(std::int32_t node) const {
        return {in_.data() + in_offset_[node], in_offset_[node + 1] - in_offset_[node]};
    }
    bool usable(std::int32_t link) const {
        return link_up_[link] && node_up_[view_.link_src[link]] && node_up_[view_.link_dst[link]];
    }

  private:
    struct Table {
        std::vector<std::uint8_t> hops;     // per switch: links to the destination host
        std::vector<std::int32_t> next_set; // per switch: index into sets_, -1 = not made yet
    };

    Table& table_of(std::int32_t dst);
    void build(Table& table, const std::vector<std::int32_t>& attached);
    std::int32_t intern(std::vector<std::int32_t>&& links);
    void forget();
    LinkSpan host_next_hops(std::int32_t node, std::int32_t dst);
    LinkSpan last_hops(std::int32_t node, std::int32_t dst);
    std::int32_t rail_entry(std::int32_t src, std::int32_t dst);
    std::int32_t link_between(std::int32_t a, std::int32_t b) const;

    NetworkView view_;
    std::vector<std::uint32_t> out_offset_, in_offset_;
    std::vector<std::int32_t> out_, in_;
    std::vector<std::uint8_t> link_up_, node_up_;
    std::vector<std::int32_t> switch_index_;  // node -> dense switch number, -1 otherwise
    std::int32_t switches_ = 0;

    std::vector<std::int32_t> table_of_host_;  // -1 = not looked up yet
    std::unordered_map<std::string, std::int32_t> table_by_attachment_;
    std::vector<Table> tables_;
    std::unordered_map<std::string, std::int32_t> set_index_;
    std::vector<std::vector<std::int32_t>> sets_;
    std::vector<std::int32_t> scratch_;
};

}  // namespace railwright
