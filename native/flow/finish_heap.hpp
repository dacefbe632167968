// When the next flow of each link ends: a 4-ary heap that puts off what can wait.
//
// A node's key never exceeds the link's true time. An earlier time moves its node up at once; a later one is only noted and
// the node sinks when it comes to the top. Most links whose time moves back never get there before it moves again.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace railwright::flow {

class FinishHeap {
  public:
    static constexpr double NEVER = std::numeric_limits<double>::infinity();

    // The earliest time (`NEVER` when there is none) and the link it belongs to; equal times in order of links.
    double time() {
        settle();
        return nodes_.empty() ? NEVER : nodes_[0].time;
    }
    std::uint32_t top() {
        settle();
        return nodes_[0].link;
    }

    void set(std::uint32_t link, double time) {
        if (link >= place_.size()) {
            place_.resize(2 * static_cast<std::size_t>(link) + 16, NOWHERE);
            due_.resize(place_.size(), NEVER);
        }
        due_[link] = time;
        std::uint32_t at = place_[link];
        if (at == NOWHERE) {
            if (time == NEVER) return;
            at = static_cast<std::uint32_t>(nodes_.size());
            nodes_.push_back({time, link});
            rise(at);
        } else if (time < nodes_[at].time) {
            nodes_[at].time = time;
            rise(at);
        }
    }

    void shift(double by) {
        for (Node& node : nodes_) node.time += by;
        for (double& due : due_) due += by;
    }

  private:
    static constexpr std::uint32_t NOWHERE = 0xffffffff;
    struct Node {
        double time;
        std::uint32_t link;
        bool before(const Node& other) const { return time != other.time ? time < other.time : link < other.link; }
    };

    void settle() {
        while (!nodes_.empty()) {
            Node& top = nodes_[0];
            const double due = due_[top.link];
            if (due == top.time) return;
            if (due == NEVER) {
                place_[top.link] = NOWHERE;
                top = nodes_.back();
                nodes_.pop_back();
                if (nodes_.empty()) return;
            } else {
                top.time = due;
            }
            sink(0);
        }
    }

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
        place_[node.link] = at;
    }

    std::vector<Node> nodes_;
    std::vector<std::uint32_t> place_;  // per link: its node
    std::vector<double> due_;           // per link: its true time
};

}  // namespace railwright::flow
