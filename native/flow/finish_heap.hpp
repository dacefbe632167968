// The running flows in order of their finish time: a 4-ary heap whose keys move when rates change.
#pragma once
#include <cstdint>
#include <vector>

namespace railwright::flow {

class FinishHeap {
  public:
    bool empty() const { return nodes_.empty(); }
    double time() const { return nodes_[0].time; }
    std::uint32_t top() const { return nodes_[0].slot; }
    bool contains(std::uint32_t slot) const { return slot < place_.size() && place_[slot] != NOWHERE; }

    void set(std::uint32_t slot, double time) {
        if (slot >= place_.size()) place_.resize(2 * static_cast<std::size_t>(slot) + 16, NOWHERE);
        std::uint32_t at = place_[slot];
        if (at == NOWHERE) {
            at = static_cast<std::uint32_t>(nodes_.size());
            nodes_.push_back({time, slot});
            place_[slot] = at;
            rise(at);
            return;
        }
        const double before = nodes_[at].time;
        nodes_[at].time = time;
        if (time < before) {
            rise(at);
        } else if (time > before) {
            sink(at);
        }
    }

    void remove(std::uint32_t slot) {
        const std::uint32_t at = place_[slot];
        place_[slot] = NOWHERE;
        const Node last = nodes_.back();
        nodes_.pop_back();
        if (at == nodes_.size()) return;
        nodes_[at] = last;
        place_[last.slot] = at;
        rise(at);
        sink(place_[last.slot]);
    }

    void shift(double by) {
        for (Node& node : nodes_) node.time += by;
    }

  private:
    static constexpr std::uint32_t NOWHERE = 0xffffffff;
    struct Node {
        double time;
        std::uint32_t slot;
        bool before(const Node& other) const { return time != other.time ? time < other.time : slot < other.slot; }
    };

    void rise(std::uint32_t at) {
        const Node node = nodes_[at];
        while (at) {
            const std::uint32_t up = (at - 1) / 4;
            if (!node.before(nodes_[up])) break;
            put(at, nodes_[up]);
            at = up;
        }
        put(at, node);
    }

    void sink(std::uint32_t at) {
        const Node node = nodes_[at];
        const auto size = static_cast<std::uint32_t>(nodes_.size());
        for (;;) {
            const std::uint32_t first = 4 * at + 1;
            if (first >= size) break;
            std::uint32_t best = first;
            for (std::uint32_t child = first + 1; child < first + 4 && child < size; ++child)
                if (nodes_[child].before(nodes_[best])) best = child;
            if (!nodes_[best].before(node)) break;
            put(at, nodes_[best]);
            at = best;
        }
        put(at, node);
    }

    void put(std::uint32_t at, const Node& node) {
        nodes_[at] = node;
        place_[node.slot] = at;
    }

    std::vector<Node> nodes_;
    std::vector<std::uint32_t> place_;
};

}  // namespace railwright::flow
