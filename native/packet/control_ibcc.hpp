// InfiniBand congestion control (IBTA architecture, annex A10): a marked packet (FECN) makes the receiver return a notification
// (BECN); each one moves the flow up a table of injection delays, a timer moves it down again by one.
#pragma once
#include <algorithm>
#include <cmath>

#include "packet/congestion.hpp"
#include "packet/options.hpp"

namespace railwright::packet {

class Ibcc final : public Control {
  public:
    explicit Ibcc(const IbccOptions& options) : o_(options), period_(static_cast<Ps>(options.timer_us * 1e6 + 0.5)) {
        hears_send = true;
    }

    void start(Sender& s, Ps now, Ps) override { s.as<State>() = {now + period_, 0}; }

    void before_send(Sender& s, Ps now) override {
        State& c = s.as<State>();
        if (c.index == 0) return;
        const Ps ticks = now < c.tick ? 0 : (now - c.tick) / period_ + 1;
        if (ticks == 0) return;
        c.tick += ticks * period_;
        c.index = ticks >= c.index ? 0 : c.index - static_cast<std::int32_t>(ticks);
        set(s, c);
    }

    void on_notification(Sender& s, Ps now) override {
        State& c = s.as<State>();
        before_send(s, now);
        if (c.index == 0) c.tick = now + period_;
        c.index = std::min(o_.limit, c.index + o_.increase);
        set(s, c);
    }

  private:
    struct State {
        Ps tick;
        std::int32_t index;
    };

    void set(Sender& s, const State& c) const { s.rate_bps = s.line_bps / std::pow(o_.table_base, c.index); }

    IbccOptions o_;
    Ps period_;
};

}  // namespace railwright::packet
