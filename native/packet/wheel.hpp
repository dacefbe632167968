// The event queue: a timing wheel of narrow buckets, with a heap for what lies beyond its horizon.
//
// Events are ordered by (time, kind, index), so ties do not depend on the order of insertion or on the design of the queue.
// A bucket is a list of nodes in one pool (the last freed is the next used, hence warm in cache); it is sorted when it opens.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace railwright::packet {

using Ps = std::int64_t;  // picoseconds: 1 byte at 400 Gb/s is exactly 20
inline constexpr Ps NEVER = INT64_MAX;

struct Event {
    Ps time;
    std::uint32_t what;  // kind in the upper 4 bits, index of a lane, link, flow or operation below
    bool operator<(const Event& other) const { return time != other.time ? time < other.time : what < other.what; }
};

class Wheel {
  public:
    // Buckets of 2^shift ps; `slots` is a power of two and at least 64.
    Wheel(int shift, std::uint32_t slots) : shift_(shift), mask_(slots - 1), head_(slots, NONE), used_(slots / 64, 0) {}

    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }

    void push(Ps time, std::uint32_t what) {
        ++size_;
        const std::int64_t bucket = time >> shift_;
        if (bucket <= cursor_) {
            insert_open({time, what});
        } else if (bucket - cursor_ <= static_cast<std::int64_t>(mask_)) {
            link(bucket, {time, what});
        } else {
            far_.push_back({time, what});
            std::push_heap(far_.begin(), far_.end(), later);
        }
    }

    // The next event; the wheel must not be empty.
    Event pop() {
        if (open_.empty()) advance();
        const Event event = open_.back();
        open_.pop_back();
        --size_;
        return event;
    }

  private:
    static constexpr std::uint32_t NONE = UINT32_MAX;
    struct Node {
        Event event;
        std::uint32_t next;
    };

    static bool later(const Event& a, const Event& b) { return b < a; }

    void insert_open(const Event& event) {
        std::size_t at = open_.size();
        open_.push_back(event);
        while (at > 0 && open_[at - 1] < event) {
            open_[at] = open_[at - 1];
            --at;
        }
        open_[at] = event;
    }

    void link(std::int64_t bucket, const Event& event) {
        std::uint32_t node = free_;
        if (node != NONE) {
            free_ = pool_[node].next;
        } else {
            node = static_cast<std::uint32_t>(pool_.size());
            pool_.emplace_back();
        }
        const std::uint32_t slot = static_cast<std::uint32_t>(bucket) & mask_;
        pool_[node] = {event, head_[slot]};
        head_[slot] = node;
        used_[slot >> 6] |= std::uint64_t{1} << (slot & 63);
        ++linked_;
    }

    std::int64_t next_bucket() const {
        const std::uint32_t start = static_cast<std::uint32_t>(cursor_ + 1) & mask_;
        const std::uint32_t words = static_cast<std::uint32_t>(used_.size());
        std::uint32_t word = start >> 6;
        std::uint64_t bits = used_[word] & (~std::uint64_t{0} << (start & 63));
        while (!bits) {
            word = word + 1 == words ? 0 : word + 1;
            bits = used_[word];
        }
        const std::uint32_t slot = (word << 6) | static_cast<std::uint32_t>(__builtin_ctzll(bits));
        return cursor_ + 1 + ((slot - start) & mask_);
    }

    void advance() {
        cursor_ = linked_ ? next_bucket() : far_.front().time >> shift_;
        while (!far_.empty() && (far_.front().time >> shift_) - cursor_ <= static_cast<std::int64_t>(mask_)) {
            link(far_.front().time >> shift_, far_.front());
            std::pop_heap(far_.begin(), far_.end(), later);
            far_.pop_back();
        }
        const std::uint32_t slot = static_cast<std::uint32_t>(cursor_) & mask_;
        used_[slot >> 6] &= ~(std::uint64_t{1} << (slot & 63));
        std::uint32_t node = head_[slot];
        head_[slot] = NONE;
        while (node != NONE) {
            const std::uint32_t next = pool_[node].next;
            if (open_.size() < 16) {
                insert_open(pool_[node].event);
            } else {
                open_.push_back(pool_[node].event);
            }
            pool_[node].next = free_;
            free_ = node;
            --linked_;
            node = next;
        }
        if (open_.size() > 16) std::sort(open_.begin(), open_.end(), later);
    }

    int shift_;
    std::uint32_t mask_;
    std::vector<std::uint32_t> head_;
    std::vector<std::uint64_t> used_;
    std::vector<Node> pool_;
    std::uint32_t free_ = NONE;
    std::size_t linked_ = 0;
    std::size_t size_ = 0;
    std::int64_t cursor_ = -1;
    std::vector<Event> open_;  // the open bucket, latest first
    std::vector<Event> far_;
};

}  // namespace railwright::packet
