// InfiniBand link-level flow control: a packet leaves only if the receive buffer of the other end has room for it; the room
// comes back when the packet leaves that buffer, after the way back over the cable.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

inline bool Engine::has_credit(std::uint32_t lane, std::uint32_t bytes) {
    Lane& l = lanes_[lane];
    CreditReturns& back = returns_[lane];
    while (!back.empty() && back.ring[back.head].time <= now) l.credit += static_cast<std::int32_t>(back.ring[back.head++].bytes);
    return l.credit >= static_cast<std::int32_t>(bytes);
}

inline void Engine::return_credit(std::uint32_t lane, std::uint32_t bytes) {
    const std::uint32_t link = lane >> lane_bits_;
    CreditReturns& back = returns_[lane];
    const Ps time = now + ports_[link ^ 1u].delay;
    back.push(time, bytes);
    if (ports_[link].starved & (1u << (lane & lane_mask_)) && !back.event) {
        back.event = true;
        push(time, CREDIT, lane);
    }
}

inline void Engine::await_credit(Port& port, std::uint32_t lane) {
    port.starved |= static_cast<std::uint16_t>(1u << (lane & lane_mask_));
    CreditReturns& back = returns_[lane];
    if (!back.empty() && !back.event) {
        back.event = true;
        push(back.ring[back.head].time, CREDIT, lane);
    }
}

inline void Engine::on_credit(std::uint32_t lane) {
    const std::uint32_t link = lane >> lane_bits_;
    returns_[lane].event = false;
    ports_[link].starved &= static_cast<std::uint16_t>(~(1u << (lane & lane_mask_)));
    serve(link);
}

}  // namespace railwright::packet
