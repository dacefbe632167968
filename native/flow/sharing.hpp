// Weighted max-min fair sharing of directed links among flows that come, move their bytes and go.
//
// Every link has a *level*: the rate per unit of weight of the flows that it holds back, or infinity while it has room to
// spare. Each flow is held back by one link of its path, the one with the lowest level, and gets `weight * level`. Such an
// allocation is max-min fair exactly when every link with a finite level is full and no other is overfull: then every flow has
// a bottleneck on which nobody gets more per weight (Bertsekas and Gallager, Data Networks, 6.5.2).
//
// The engine keeps this state up to date link by link. What the held flows of a link share is known in one number, so that a
// moved level costs one addition per held flow and link, and no flow is touched otherwise: a link counts the bytes per weight
// that it has served (`served`), and a held flow ends when that reaches its mark (`finish`). Links are repaired in the order of
// their levels, since a link can only disturb those above it; mostly each is repaired once. When the flows of a link have to
// be divided anew between held and not held, the link is solved from all its flows. Work beyond a few times the size of a
// full computation is cut off by doing the full computation (progressive filling). A level that would move by less than one
// part in 10^12 stays; `audit` measures the total error.
//
// Priorities are strict: class p shares what the classes before it leave. A flow may use a link with a share below 1 (spraying)
// or above 1 (a class of alike flows of which several are on the same link). A flow's own cap is a link of its own.
#pragma once
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "flow/finish_heap.hpp"
#include "flow/repair_queue.hpp"

namespace railwright::flow {

constexpr double INF = std::numeric_limits<double>::infinity();

// One link of a path and how much of the flow's rate it carries.
struct Hop {
    std::int32_t link;
    double share;
};

class Sharing {
  public:
    using Slot = std::uint32_t;

    struct Work {
        std::uint64_t updates = 0;  // links repaired
        std::uint64_t solves = 0;   // of these, from all their flows
        std::uint64_t fills = 0;    // full computations
        std::uint64_t visits = 0;   // (flow, link) pairs looked at
    };

    Sharing(const double* capacity, std::int32_t links, unsigned priorities);

    // All that follows happens at this time, which never goes back.
    void set_time(double now) { now_ = now; }

    // Put a flow on its links (distinct ones); it moves nothing before `settle`.
    Slot attach(const Hop* hops, std::uint32_t count, double weight, double cap, unsigned priority, double bytes);
    void detach(Slot slot);
    // A flow that has moved all its bytes gets more to move on the same path.
    void again(Slot slot, double bytes);
    void set_capacity(std::int32_t link, double capacity);

    // Bring all rates up to date.
    void settle();

    // When the next flow will have moved its last byte (infinity: none ever).
    double next_finish() { return finish_.time(); }
    // Append the flows that end at or before `until` (not before the present). They stay until detached or told to go again.
    void finished(double until, std::vector<Slot>& ended);

    double remaining(Slot slot) const;
    double rate(Slot slot) const;

    // Bytes that each link carried of flows it held back, up to now, and those of flows that their caps held back.
    const std::vector<double>& limited_bytes();
    double capped_bytes() const { return capped_bytes_; }

    // What has happened since `remember` happens `cycles` more times, which takes `duration` in all and ends as it is now.
    void remember();
    void skip(double cycles, double duration);

    // The largest relative difference of any rate from a full computation.
    double audit();
    const Work& work() const { return work_; }

  private:
    static constexpr double SAME = 1e-12;  // relative difference that counts as none

    struct Flow {
        double weight = 1, pending = 0;
        std::uint32_t first = 0, count = 0;
        std::int32_t limit = -1;  // the link that holds the flow back; -1 = not decided yet
        std::uint8_t priority = 0;
        bool live = false;
    };
    struct Place {
        std::int32_t link;
        std::uint32_t member;  // position in the link's members
        double unit;           // share * weight: load per unit of level
    };
    struct alignas(32) Member {
        std::uint32_t first;
        std::uint16_t count, hop;
        Slot slot;
        double unit;
        double finish;  // of a held flow: `served` at which it ends
    };
    // What a neighbour's move looks at, kept small for the cache.
    struct alignas(32) Link {
        double level = INF;
        double load = 0;      // of the flows that other links hold back
        double trigger = 0;   // a load above it calls for repair: all when the link has a level, none when it is queued already
        double guard = 0;     // no flow held elsewhere has a higher level than this
    };
    struct alignas(64) Held {
        double capacity = 0;
        double units = 0;      // of the held flows
        double all_units = 0;  // of all flows
        double served = 0, since = 0;
        double first = -1;  // the least `finish` of the held flows; below 0: to be found
        std::uint32_t count = 0;
        std::uint16_t drift = 0;
        std::uint8_t priority = 0;
        bool touched = false;
    };
    struct Key {
        double key;
        std::int32_t link;
        bool operator<(const Key& other) const { return key != other.key ? key > other.key : link > other.link; }
    };
    // The network's link of a (priority, link) pair.
    std::int32_t base_of(std::int32_t link) const { return link < links_ ? link : link % links_; }
    std::uint32_t take_places(std::uint32_t count);
    std::int32_t own_link(double cap, unsigned priority);
    void put(std::int32_t link, std::uint32_t at, const Member& member);
    void swap_members(std::int32_t link, std::uint32_t a, std::uint32_t b);
    std::int32_t lowest(const Flow& flow) const;
    double load_of(std::int32_t link) const {
        return link_[link].level < INF ? link_[link].load + held_[link].units * link_[link].level : link_[link].load;
    }
    // To be called when the level, the capacity or the place in the queue of a link has changed.
    void rearm(std::int32_t link) {
        link_[link].trigger = is_dirty_[link] ? INF : link_[link].level < INF ? -INF : held_[link].capacity * (1 + SAME);
    }

    void advance(std::int32_t link);
    void mark(std::int32_t link);
    void queue(std::int32_t link);
    void mark_if_disturbed(std::int32_t link);
    void touch(std::int32_t link);
    void give_leftover(std::int32_t link);
    void give_all_leftovers();
    void assign(Slot slot, std::int32_t to);
    bool move_level(std::int32_t link, double level);
    template <bool RISES>
    bool pass_on(std::int32_t link, double level);
    void begin(Slot slot);
    void update(std::int32_t link);
    void recount(std::int32_t link);
    void solve(std::int32_t link);
    double level_that_fills(double capacity, double units, double guess, std::size_t count) const;
    void relax();
    void fill();
    void fill_all();
    void schedule();

    std::int32_t links_;   // of the network
    unsigned priorities_;
    std::int32_t shared_;  // links_ * priorities_; links of single flows follow
    std::vector<double> base_;
    std::vector<Link> link_;
    std::vector<Held> held_;
    std::vector<std::uint8_t> is_dirty_;
    std::vector<std::vector<Member>> members_;  // held flows first
    std::vector<std::int32_t> free_links_;

    std::vector<Flow> flows_;
    std::vector<Slot> free_flows_;
    std::vector<Place> places_;
    std::vector<std::vector<std::uint32_t>> free_places_;  // by length
    std::uint32_t active_ = 0;
    std::uint32_t longest_ = 0;     // hops of the longest path so far
    std::uint64_t on_links_ = 0;    // (flow, link) pairs
    std::uint32_t busy_links_ = 0;  // links with flows

    double now_ = 0;
    FinishHeap finish_;  // of links: when their next held flow ends
    std::vector<RepairQueue> dirty_;  // per priority
    std::vector<Slot> started_;
    std::vector<std::int32_t> touched_, disturbed_;
    std::vector<double> limited_bytes_;
    double capped_bytes_ = 0, capped_then_ = 0;
    std::vector<double> limited_then_;
    Work work_;

    std::vector<double> other_, unit_;
    std::vector<Slot> to_here_, away_;
    std::vector<double> full_rate_, full_level_;
    std::vector<std::int32_t> full_limit_;
};

}  // namespace railwright::flow
