// The transmitter of a directed link, and what a host adds to it: the queue of flows that may send.
#pragma once
#include <cstdint>
#include <vector>

#include "packet/packet.hpp"

namespace railwright::packet {

struct Port {
    Ps busy_until = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ps_per_byte_16;  // fixed point, 16 fraction bits
    Ps delay;                      // propagation and the latency of the switch at the end
    Ps frame_delay;                // of pause frames: propagation and the reaction of the other MAC
    std::int32_t src, dst;
    std::int32_t host_port = -1;   // index of the send queues, hosts only
    std::uint16_t waiting = 0;     // lanes with packets that wait
    std::uint16_t sources = 0;     // classes with flows that wait (hosts)
    std::uint16_t paused = 0;
    std::uint16_t starved = 0;     // lanes without credit
    std::uint8_t turn = 0;         // weighted round robin
    bool done_event = false;       // the end of this transmission is among the events
    bool up = true;
    bool own_next = false;         // of a host: a flow's packet before the next one that only passes through
    bool ends_at_host, starts_at_switch, early;  // early: the end may forward before the last bit (cut-through)

    std::uint32_t open() const { return static_cast<std::uint32_t>(waiting | sources) & ~static_cast<std::uint32_t>(paused | starved); }
    Ps time_of(std::uint32_t bytes_on_wire) const {
        return static_cast<Ps>((bytes_on_wire * ps_per_byte_16 + 32768) >> 16);
    }
};

struct SendQueue {
    std::uint32_t first = NONE, last = NONE;
};

// Pause as the transmitter of a lane sees it; cold beside `Port`.
struct PauseState {
    Ps since = 0, until = 0, total = 0, longest = 0;
    std::uint32_t frames = 0;
    bool paused = false;
    bool expiry_event = false, refresh_event = false, watchdog_event = false;
    bool ignored = false;  // the watchdog has taken the lane out of flow control
};

// Credits on their way back to the transmitter of a lane.
struct CreditReturns {
    struct Return {
        Ps time;
        std::uint32_t bytes;
    };
    std::vector<Return> ring;
    std::size_t head = 0;
    bool event = false;

    bool empty() const { return head == ring.size(); }
    void push(Ps time, std::uint32_t bytes) {
        if (head > 64 && head * 2 > ring.size()) {
            ring.erase(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(head));
            head = 0;
        }
        ring.push_back({time, bytes});
    }
};

}  // namespace railwright::packet
