// What travels: one packet in half a cache line, and the ring that holds the packets of one lane in order.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "packet/wheel.hpp"

namespace railwright::packet {

inline constexpr std::uint32_t NONE = UINT32_MAX;

enum Kind : std::uint8_t { DATA, ACK, NACK, CNP, PAUSE, RESUME };

enum Flag : std::uint8_t {
    CE = 1,          // congestion experienced, set by a switch
    AGAIN = 2,       // a retransmission
    NOTIFY = 4,      // an acknowledgement that carries the congestion notification itself
    LAST = 8,        // the last packet of an operation whose latency budget is kept
};

struct Packet {
    Ps time;                // when it reaches the other end of the link, known from its transmission on
    std::uint32_t flow;     // PAUSE and RESUME: the class
    std::uint32_t seq;      // DATA: packet number; ACK and NACK: next packet expected
    std::uint32_t ingress;  // lane by which it entered this switch
    std::uint32_t route;    // where in the path store its next link stands
    std::uint32_t extra;    // DATA and ACK with telemetry: its record; ACK: marked packets << 24 | (packet acked - seq)
    std::uint16_t bytes;    // on the wire
    std::uint8_t kind;
    std::uint8_t flags;
};
static_assert(sizeof(Packet) == 32);

// head .. mid: on the wire; mid .. tail: waiting. A packet is written once and does not move while it waits and flies.
struct Ring {
    Packet* data = nullptr;
    std::uint32_t mask = 0;
    std::uint32_t head = 0, mid = 0, tail = 0;

    Packet& at(std::uint32_t index) { return data[index & mask]; }
    const Packet& at(std::uint32_t index) const { return data[index & mask]; }

    void grow() {
        const std::uint32_t size = data ? (mask + 1) * 2 : 4;
        auto* larger = static_cast<Packet*>(std::malloc(size * sizeof(Packet)));
        if (!larger) throw std::bad_alloc();
        for (std::uint32_t i = head; i != tail; ++i) larger[i & (size - 1)] = data[i & mask];
        std::free(data);
        data = larger;
        mask = size - 1;
    }
    Packet& push() {
        if (!data || tail - head > mask) grow();
        return at(tail++);
    }
};

}  // namespace railwright::packet
