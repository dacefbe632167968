// The two ends of a flow (one queue pair or TCP connection), apart because they are touched at different moments.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "packet/packet.hpp"

namespace railwright::packet {

enum class Send : std::uint8_t { IDLE, QUEUED, TIMED };

struct Sender {
    Ps next_send;             // pacing: not before
    double rate_bps;
    double window_bytes;      // 0: none
    std::uint32_t una, nxt, end;   // packet numbers: oldest unacknowledged, next new, one past the last
    std::uint32_t highest;         // one past the highest ever sent
    std::uint32_t link;            // first link
    std::uint32_t route;           // of the link after it
    std::uint32_t next_queued;     // next flow in the send queue of the port
    std::uint32_t op;
    std::uint32_t data_sent, acks_gone;
    std::uint32_t again, again_end;  // selective repeat: holes to send again
    std::uint32_t sacked;            // packets beyond una that the receiver has
    std::uint32_t holes;             // index of the bitmap of those, NONE = none yet
    std::uint32_t recover;           // a loss below this packet belongs to the last reduction
    std::uint32_t timed_packet;      // round-trip sample under way
    Ps timed_at, last_send, rtt, deadline;
    Ps timer_at;              // of the timeout event that counts, 0 = none; an earlier one that fires is stale
    double line_bps;
    std::int32_t src, dst;
    std::uint16_t last_payload;      // of the last packet
    std::uint8_t cls;
    Send state;
    std::uint8_t retries;
    bool open, timing, failed;
    bool pinned;                     // keeps its one path whatever the mode
    std::uint8_t path, paths;        // which of several paths (flowlets, multipath)
    std::uint8_t stride;             // length of each in the path store
    std::uint16_t path_words;        // of all its paths there
    alignas(8) unsigned char control[64];  // state of the congestion control

    // The congestion control's own state: a plain struct that fits.
    template <class State>
    State& as() {
        static_assert(sizeof(State) <= sizeof(control) && std::is_trivially_copyable_v<State>);
        return *reinterpret_cast<State*>(control);
    }
};

struct Receiver {
    std::uint32_t expected, end;
    std::uint32_t link, route;        // of acknowledgements
    std::uint32_t nack_for;
    std::uint32_t data_gone, acks_sent;
    std::uint32_t have;               // index of the bitmap of packets beyond `expected`, NONE = none yet
    Ps nack_at, notified_at;
    std::uint16_t unacked, marked;
    std::uint8_t cls;
    bool done;
};

// What an acknowledgement tells a congestion control.
struct AckInfo {
    Ps now;
    std::uint32_t acked;       // packets newly acknowledged
    std::uint32_t marked;      // of the packets it stands for
    double bytes;              // payload of `acked`
    Ps rtt;                    // 0: no sample
    std::uint32_t telemetry;   // record, NONE without
};

}  // namespace railwright::packet
