// The shared buffer of a switch: per (ingress link, class) accounting with reserve, dynamic threshold and headroom.
//
// Threshold T = alpha x (pool - used), or static. A lossless packet that finds its queue above T goes to the headroom, and
// one that finds that full too is lost; a lossy packet is lost when its output queue would exceed T. A packet counts from
// its arrival until its first bit leaves.
#pragma once
#include <algorithm>
#include <cstdint>

#include "packet/packet.hpp"

namespace railwright::packet {

// Constants of a (link, class), shared by all alike.
struct Profile {
    std::int64_t reserve, headroom, xon_offset, xoff, kmin, kmax;
    double alpha, pmax;
    bool lossless;
    bool operator==(const Profile& o) const {
        return reserve == o.reserve && headroom == o.headroom && xon_offset == o.xon_offset && xoff == o.xoff &&
               kmin == o.kmin && kmax == o.kmax && alpha == o.alpha && pmax == o.pmax && lossless == o.lossless;
    }
};

struct Pool {
    std::int64_t capacity = 0;  // what is left beside reserves and headrooms
    std::int64_t used = 0;
    std::int64_t used_max = 0;
    std::int64_t headroom = 0;  // of all lossless queues
    std::int64_t headroom_used = 0, headroom_max = 0;
};

// One direction of a cable and one class: the output queue at its source and the input accounting at its end.
struct Lane {
    Ring ring;
    std::uint32_t queued = 0, queued_max = 0;
    std::uint32_t ingress = 0, headroom_used = 0;
    std::int32_t credit = 0;
    std::uint32_t marks = 0, drops = 0;
    std::uint16_t profile = 0;
    bool arriving = false;  // the arrival of ring.head is among the events
    bool pausing = false;   // the end has paused the source
};

inline std::int64_t threshold(const Pool& pool, const Profile& p) {
    if (p.xoff > 0) return p.xoff;
    return static_cast<std::int64_t>(p.alpha * static_cast<double>(std::max<std::int64_t>(0, pool.capacity - pool.used)));
}

inline std::int64_t above_reserve(const Lane& in, const Profile& p) {
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(in.ingress) - p.reserve);
}

// Take `bytes` in; false: there is no room and the packet is lost. `out_queued` is the length of its output queue.
inline bool admit(Pool& pool, Lane& in, const Profile& p, std::uint32_t bytes, std::uint32_t out_queued) {
    const std::int64_t limit = threshold(pool, p);
    if (!p.lossless) {
        if (static_cast<std::int64_t>(out_queued) + bytes > limit || pool.used + bytes > pool.capacity) return false;
        in.ingress += bytes;
        pool.used += bytes;
    } else {
        const std::int64_t shared = above_reserve(in, p);
        if (in.headroom_used + static_cast<std::int64_t>(bytes) > p.headroom && shared + bytes > limit) return false;
        const std::int64_t over = static_cast<std::int64_t>(in.ingress) + bytes - p.reserve;
        if (over <= 0) {
            in.ingress += bytes;
        } else if (over > limit) {
            in.headroom_used += bytes;
            pool.headroom_used += bytes;
            pool.headroom_max = std::max(pool.headroom_max, pool.headroom_used);
        } else {
            in.ingress += bytes;
            pool.used += std::min<std::int64_t>(bytes, over);
        }
    }
    pool.used_max = std::max(pool.used_max, pool.used);
    return true;
}

inline void release(Pool& pool, Lane& in, const Profile& p, std::uint32_t bytes) {
    if (!p.lossless) {
        in.ingress -= bytes;
        pool.used -= bytes;
        return;
    }
    const std::uint32_t from_headroom = std::min(in.headroom_used, bytes);
    in.headroom_used -= from_headroom;
    pool.headroom_used -= from_headroom;
    const std::uint32_t rest = bytes - from_headroom;
    pool.used -= std::min<std::int64_t>(rest, above_reserve(in, p));
    in.ingress -= rest;
}

inline bool must_pause(const Pool& pool, const Lane& in, const Profile& p) {
    return in.headroom_used > 0 || above_reserve(in, p) >= threshold(pool, p);
}

inline bool may_resume(const Pool& pool, const Lane& in, const Profile& p) {
    if (in.headroom_used > 0) return false;
    const std::int64_t shared = above_reserve(in, p);
    return shared == 0 || shared + p.xon_offset <= threshold(pool, p);
}

}  // namespace railwright::packet
