// The dependency graph of operations: what is sent, computed or waited for, and what each one waits for.
#pragma once
#include <cstdint>
#include <vector>

#include "packet/wheel.hpp"

namespace railwright::packet {

enum OpKind : std::uint8_t { SEND, REDUCE, COMPUTE, BARRIER };

// Borrowed columns of `n` operations; `after`, `gate` and `path` are lists of lists (offsets and values).
//
// `after` holds the first repetition until those operations have ended altogether. `gate` holds every repetition: number k
// (from 0) waits until the named operation has done k + lead repetitions (lead 0: the ring step before, 1: the same piece).
// The repetitions of a send follow each other when the last byte has left, so that several may be under way.
struct Operations {
    std::uint32_t n = 0;
    const std::uint8_t* kind = nullptr;
    const std::int32_t* src = nullptr;
    const std::int32_t* dst = nullptr;
    const std::int64_t* bytes = nullptr;
    const std::int64_t* duration_ps = nullptr;
    const std::int64_t* start_ps = nullptr;
    const std::uint32_t* repeat = nullptr;
    const std::uint8_t* cls = nullptr;
    const std::uint32_t* entropy = nullptr;
    const std::int64_t* after_offset = nullptr;
    const std::uint32_t* after = nullptr;
    const std::int64_t* gate_offset = nullptr;
    const std::uint32_t* gate = nullptr;
    const std::uint8_t* gate_lead = nullptr;
    const std::int64_t* path_offset = nullptr;
    const std::int32_t* path = nullptr;
};

inline constexpr std::uint32_t HAS_LEFT = 1u << 31;  // with an operation's number: one of its flows has left the sender

struct OpState {
    Ps start = -1, finish = -1, ideal = 0;
    std::int64_t again_bytes = 0;
    std::uint32_t waits_for = 0;
    std::uint32_t begun = 0, done = 0;  // repetitions
    std::uint16_t flows = 0;            // of one repetition
    std::uint16_t leaving = 0;          // flows of the last repetition begun that have not left the sender
    std::uint16_t arrived = 0;          // flows beyond those of the repetitions that are done
    std::uint16_t hops = 0;
    bool released = false;  // nothing holds its first repetition
    bool busy = false;      // a repetition is being sent or computed
    bool failed = false;
};

// Where the time of an operation's last packet went; the serialisation and what came late are the rest of its time.
struct Budget {
    Ps first_sent = 0;           // its first bit left the sender
    Ps sender = 0;               // of that, what an idle network does not need
    Ps sender_paused = 0;        // of that, while the sender's own port was paused
    Ps again = 0;                // from there to its last retransmission
    Ps paused_at_start = 0;      // of that port, before the operation
    Ps queueing = 0, paused = 0; // waits at switches; while the port was paused
    Ps propagation = 0, switching = 0;
    std::uint32_t first_link = 0;
};

// Who waits for whom, turned round once.
struct Dependents {
    std::vector<std::uint32_t> offset, op;

    Dependents(std::uint32_t n, const std::int64_t* list_offset, const std::uint32_t* list)
        : offset(n + 1, 0), op(static_cast<std::size_t>(list_offset[n])) {
        for (std::int64_t i = 0; i < list_offset[n]; ++i) ++offset[list[i] + 1];
        for (std::uint32_t i = 0; i < n; ++i) offset[i + 1] += offset[i];
        std::vector<std::uint32_t> fill(offset.begin(), offset.end() - 1);
        for (std::uint32_t i = 0; i < n; ++i)
            for (std::int64_t k = list_offset[i]; k < list_offset[i + 1]; ++k) op[fill[list[k]]++] = i;
    }
};

}  // namespace railwright::packet
