// Priority flow control (IEEE 802.1Qbb): pause and resume frames, quanta that run out, refresh, and the watchdog.
#pragma once
#include "packet/engine.hpp"

namespace railwright::packet {

// One quantum is the time of 512 bits at the speed of the link.
inline Ps Engine::quanta_time(const Port& port) const {
    return o_.pause_quanta > 0 ? static_cast<Ps>(o_.pause_quanta * static_cast<double>(port.time_of(64))) : 0;
}

inline void Engine::send_pause(std::uint32_t in_lane) {
    const std::uint32_t link = (in_lane >> lane_bits_) ^ 1u;
    Lane& in = lanes_[in_lane];
    if (!in.pausing) {
        in.pausing = true;
        PauseState& state = pauses_[in_lane];
        if (o_.pause_quanta > 0 && !state.refresh_event) {
            state.refresh_event = true;
            push_background(now + quanta_time(ports_[link]) / 2, REFRESH, in_lane);
        }
    }
    ++counters.pause_frames;
    ++pauses_[in_lane].frames;
    const Packet frame{0, in_lane & lane_mask_, 0, NONE, 0, NONE, static_cast<std::uint16_t>(o_.pause_frame_bytes), PAUSE, 0};
    send_or_enqueue(link, control_lane(link), frame);
}

inline void Engine::send_resume(std::uint32_t in_lane) {
    const std::uint32_t link = (in_lane >> lane_bits_) ^ 1u;
    lanes_[in_lane].pausing = false;
    ++counters.resume_frames;
    const Packet frame{0, in_lane & lane_mask_, 0, NONE, 0, NONE, static_cast<std::uint16_t>(o_.pause_frame_bytes), RESUME, 0};
    send_or_enqueue(link, control_lane(link), frame);
}

inline void Engine::check_resume(std::uint32_t in_lane) {
    Lane& in = lanes_[in_lane];
    if (may_resume(pools_[ports_[in_lane >> lane_bits_].dst], in, profiles_[in.profile])) send_resume(in_lane);
}

// A frame that came over a link stops the lane of the opposite direction.
inline void Engine::on_pause_frame(const Packet& packet, std::uint32_t lane) {
    const std::uint32_t link = (lane >> lane_bits_) ^ 1u;
    const std::uint32_t target = lane_of(link, packet.flow);
    PauseState& state = pauses_[target];
    if (state.ignored) {
        state.until = now + static_cast<Ps>(o_.watchdog_restore_us * 1e6);
        return;
    }
    if (packet.kind == RESUME) {
        if (state.paused) end_pause(target);
        return;
    }
    Port& port = ports_[link];
    const Ps hold = quanta_time(port);
    state.until = hold ? now + hold : NEVER;
    if (!state.paused) {
        state.paused = true;
        state.since = now;
        port.paused |= static_cast<std::uint16_t>(1u << packet.flow);
        if (o_.watchdog_detect_us > 0 && !state.watchdog_event) {
            state.watchdog_event = true;
            push_background(now + static_cast<Ps>(o_.watchdog_detect_us * 1e6), WATCHDOG, target);
        }
    }
    if (hold && !state.expiry_event) {
        state.expiry_event = true;
        push_background(state.until, EXPIRE, target);
    }
}

inline Ps Engine::paused_so_far(std::uint32_t lane) const {
    const PauseState& state = pauses_[lane];
    return state.total + (state.paused ? now - state.since : 0);
}

inline void Engine::end_pause(std::uint32_t lane) {
    PauseState& state = pauses_[lane];
    const std::uint32_t link = lane >> lane_bits_;
    state.paused = false;
    state.total += now - state.since;
    state.longest = std::max(state.longest, now - state.since);
    ports_[link].paused &= static_cast<std::uint16_t>(~(1u << (lane & lane_mask_)));
    serve(link);
}

inline void Engine::on_expire(std::uint32_t lane) {
    PauseState& state = pauses_[lane];
    state.expiry_event = false;
    if (!state.paused) return;
    if (state.until <= now) {
        end_pause(lane);
    } else if (state.until != NEVER) {
        state.expiry_event = true;
        push_background(state.until, EXPIRE, lane);
    }
}

inline void Engine::on_refresh(std::uint32_t in_lane) {
    PauseState& state = pauses_[in_lane];
    state.refresh_event = false;
    if (!lanes_[in_lane].pausing) return;
    send_pause(in_lane);
    state.refresh_event = true;
    push_background(now + quanta_time(ports_[(in_lane >> lane_bits_) ^ 1u]) / 2, REFRESH, in_lane);
}

// A lane that was paused without a break for the detection time is drained: what waits and what comes is dropped, pause
// frames are ignored, until none has come for the restoration time.
inline void Engine::on_watchdog(std::uint32_t lane) {
    PauseState& state = pauses_[lane];
    state.watchdog_event = false;
    const std::uint32_t link = lane >> lane_bits_;
    const Ps detect = static_cast<Ps>(o_.watchdog_detect_us * 1e6);
    if (state.ignored) {
        if (state.until <= now) {
            state.ignored = false;
        } else {
            state.watchdog_event = true;
            push_background(state.until, WATCHDOG, lane);
        }
        return;
    }
    if (!state.paused) return;
    if (now - state.since < detect) {
        state.watchdog_event = true;
        push_background(state.since + detect, WATCHDOG, lane);
        return;
    }
    ++counters.watchdog;
    state.ignored = true;
    state.until = now + static_cast<Ps>(o_.watchdog_restore_us * 1e6);
    state.watchdog_event = true;
    push_background(state.until, WATCHDOG, lane);
    Port& port = ports_[link];
    if (port.starts_at_switch) {
        Lane& l = lanes_[lane];
        const std::uint32_t first = l.ring.mid, last = l.ring.tail;
        l.ring.tail = first;
        l.queued = 0;
        port.waiting &= static_cast<std::uint16_t>(~(1u << (lane & lane_mask_)));
        for (std::uint32_t i = first; i != last; ++i) {
            const Packet packet = l.ring.at(i);
            if (packet.ingress != NONE) leave(packet.ingress, packet.bytes);
            drop(packet, lane, Loss::WATCHDOG);
        }
    }
    end_pause(lane);
}

}  // namespace railwright::packet
