// DCQCN, the rate control of RoCE NICs (Zhu et al., SIGCOMM 2015), in two profiles.
//
// `standard`: a notification cuts the rate at once and restarts timer and byte counter; alpha decays without notifications.
// `reference`: as the ns-3 lineage does it: a notification only leaves marks; the cut comes with the next tick of a decrease
// timer that starts with the first notification; increase by time alone.
#pragma once
#include <algorithm>

#include "packet/congestion.hpp"
#include "packet/options.hpp"

namespace railwright::packet {

class Dcqcn final : public Control {
  public:
    explicit Dcqcn(const DcqcnOptions& options)
        : o_(options),
          alpha_period_(ps(options.alpha_timer_us)),
          decrease_period_(ps(options.decrease_interval_us)),
          increase_period_(ps(options.increase_timer_us)) {
        hears_send = true;
    }

    void start(Sender& s, Ps, Ps) override { s.as<State>() = {s.line_bps, 1.0, NEVER, NEVER, NEVER, 0.0, 0, 0, false, false, true}; }

    void before_send(Sender& s, Ps now) override { catch_up(s, s.as<State>(), now); }

    void on_sent(Sender& s, double bytes) override {
        State& c = s.as<State>();
        if (!o_.standard || c.increase == NEVER) return;
        c.bytes += bytes;
        if (c.bytes < o_.byte_counter_bytes) return;
        c.bytes -= o_.byte_counter_bytes;
        ++c.byte_stage;
        raise(s, c);
    }

    void on_notification(Sender& s, Ps now) override {
        State& c = s.as<State>();
        catch_up(s, c, now);
        if (o_.standard) {
            if (!c.fresh && now < c.decrease) return;
            c.fresh = false;
            c.target = s.rate_bps;
            s.rate_bps = std::max(minimum(), s.rate_bps * (1 - c.alpha / 2));
            c.alpha = (1 - o_.g) * c.alpha + o_.g;
            c.time_stage = c.byte_stage = 0;
            c.bytes = 0;
            c.alpha_tick = now + alpha_period_;
            c.increase = now + increase_period_;
            c.decrease = now + decrease_period_;
            return;
        }
        c.marked_alpha = c.marked_decrease = true;
        if (c.fresh) {
            c.fresh = false;
            c.marked_alpha = false;
            c.alpha = 1;
            c.target = s.rate_bps;
            c.alpha_tick = now + alpha_period_;
            c.decrease = now + decrease_period_ + 1000;  // one nanosecond after alpha, as the peer
        }
    }

  private:
    struct State {
        double target, alpha;
        Ps alpha_tick, decrease, increase;  // when the next one is due; in the standard profile `decrease` is a guard time
        double bytes;
        std::uint32_t time_stage, byte_stage;
        bool marked_alpha, marked_decrease, fresh;
    };

    static Ps ps(double us) { return static_cast<Ps>(us * 1e6 + 0.5); }
    double minimum() const { return o_.minimum_gbps * 1e9; }

    void catch_up(Sender& s, State& c, Ps now) {
        if (c.fresh) return;
        for (;;) {
            const Ps cut = o_.standard ? NEVER : c.decrease;
            const Ps due = std::min({c.alpha_tick, cut, c.increase});
            if (due > now) return;
            if (due == c.alpha_tick) {
                c.alpha = (1 - o_.g) * c.alpha + (c.marked_alpha ? o_.g : 0);
                c.marked_alpha = false;
                c.alpha_tick += alpha_period_;
            } else if (due == cut) {
                c.decrease += decrease_period_;
                if (c.marked_decrease) {
                    c.marked_decrease = false;
                    if (o_.clamp_target || c.time_stage > 0) c.target = s.rate_bps;
                    s.rate_bps = std::max(minimum(), s.rate_bps * (1 - c.alpha / 2));
                    c.time_stage = 0;
                    c.increase = due + increase_period_;
                }
            } else {
                c.increase += increase_period_;
                if (o_.standard) ++c.time_stage;
                raise(s, c);
                if (!o_.standard) ++c.time_stage;
                if (s.line_bps - s.rate_bps < 2 && s.line_bps - c.target < 2) {  // back at line rate: nothing left to do
                    s.rate_bps = c.target = s.line_bps;
                    c.increase = NEVER;
                }
            }
        }
    }

    void raise(Sender& s, State& c) const {
        const auto stages = static_cast<std::uint32_t>(o_.fast_recovery);
        if (o_.standard) {
            if (std::min(c.time_stage, c.byte_stage) > stages)
                c.target += o_.hyper_share * s.line_bps;
            else if (std::max(c.time_stage, c.byte_stage) >= stages)
                c.target += o_.additive_share * s.line_bps;
        } else if (c.time_stage == stages) {
            c.target += o_.additive_share * s.line_bps;
        } else if (c.time_stage > stages) {
            c.target += o_.hyper_share * s.line_bps;
        }
        c.target = std::min(c.target, s.line_bps);
        s.rate_bps = (s.rate_bps + c.target) / 2;
    }

    DcqcnOptions o_;
    Ps alpha_period_, decrease_period_, increase_period_;
};

}  // namespace railwright::packet
