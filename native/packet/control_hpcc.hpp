// HPCC (Li et al., SIGCOMM 2019): the rate follows the most loaded hop that in-band telemetry tells, towards a utilisation
// of eta; the window is base round trip times rate.
#pragma once
#include <algorithm>

#include "packet/congestion.hpp"
#include "packet/options.hpp"

namespace railwright::packet {

class Hpcc final : public Control {
  public:
    explicit Hpcc(const HpccOptions& options) : o_(options) { wants_telemetry = true; }

    void start(Sender& s, Ps, Ps base_rtt) override {
        const Ps fixed = static_cast<Ps>(o_.base_rtt_us * 1e6);
        State& c = s.as<State>();
        c = {s.line_bps, 1.0, fixed ? fixed : base_rtt, 0, 0, 0, last_.take(), false};
        c.full_window = s.line_bps / 8e12 * static_cast<double>(c.base_rtt);
        s.window_bytes = c.full_window;
    }

    void on_ack(Sender& s, const AckInfo&, const Telemetry* seen) override {
        if (!seen || !seen->hops) return;
        State& c = s.as<State>();
        Telemetry& last = last_[c.last];
        if (!c.started) {
            last = *seen;
            c.started = true;
            c.update_after = s.nxt;
            return;
        }
        const double base = static_cast<double>(c.base_rtt);
        double most = 0, over = base;
        for (std::uint32_t i = 0; i < seen->hops; ++i) {
            const HopRecord &now = seen->hop[i], &then = last.hop[i];
            const double tau = static_cast<double>(now.time - then.time);
            if (tau <= 0) continue;
            const double rate = (now.sent_bytes - then.sent_bytes) * 8e12 / tau;
            const double queue = std::min(now.queue_bytes, then.queue_bytes);
            const double use = rate / now.rate_bps + queue * s.line_bps / (now.rate_bps * c.full_window);
            if (use > most) {
                most = use;
                over = tau;
            }
        }
        last = *seen;
        over = std::min(over, base);
        c.use = c.use * (base - over) / base + most * over / base;
        const bool round = s.una > c.update_after;
        if (!round && !o_.fast_react) return;
        const double least = o_.minimum_gbps * 1e9;
        double rate;
        int stage = c.stage;
        if (c.use >= o_.eta || stage >= o_.max_stage) {
            rate = c.rate / (c.use / o_.eta) + o_.additive_gbps * 1e9;
            stage = 0;
        } else {
            rate = c.rate + o_.additive_gbps * 1e9;
            ++stage;
        }
        rate = std::clamp(rate, least, s.line_bps);
        s.rate_bps = rate;
        s.window_bytes = std::max(1.0, c.full_window * rate / s.line_bps);
        if (round) {
            c.rate = rate;
            c.stage = stage;
            c.update_after = s.nxt;
        }
    }

    void finish(Sender& s) override { last_.give(s.as<State>().last); }

  private:
    struct State {
        double rate, use;
        Ps base_rtt;
        double full_window;
        std::uint32_t update_after;
        int stage;
        std::uint32_t last;  // record of the last acknowledgement
        bool started;
    };

    HpccOptions o_;
    TelemetryPool last_;
};

}  // namespace railwright::packet
