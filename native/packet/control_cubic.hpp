// TCP CUBIC (RFC 9438) for the lossy classes: slow start, then a window that grows as a cubic of the time since the last
// loss; a loss multiplies it by beta, a timeout starts again at one packet. Selective acknowledgements are the sender's.
#pragma once
#include <algorithm>
#include <cmath>

#include "packet/congestion.hpp"
#include "packet/options.hpp"

namespace railwright::packet {

class Cubic final : public Control {
  public:
    Cubic(const CubicOptions& options, double payload) : o_(options), payload_(payload) {}

    void start(Sender& s, Ps, Ps) override {
        s.as<State>() = {o_.initial_packets, 1e18, 0, 0, NEVER};
        s.window_bytes = o_.initial_packets * payload_;
    }

    void on_ack(Sender& s, const AckInfo& ack, const Telemetry*) override {
        State& c = s.as<State>();
        if (!ack.acked || s.una < s.recover) return;
        if (c.window < c.threshold) {
            c.window = std::min(c.window + ack.acked, std::max(c.threshold, c.window));
        } else {
            if (c.epoch == NEVER) {
                c.epoch = ack.now;
                c.start = c.window;
                c.wait = std::cbrt(std::max(0.0, c.maximum - c.window) / o_.c);
            }
            const double rtt = static_cast<double>(s.rtt) * 1e-12;
            const double t = static_cast<double>(ack.now - c.epoch) * 1e-12;
            const double plateau = std::max(c.maximum, c.start);
            const double cubic = o_.c * std::pow(t + rtt - c.wait, 3) + plateau;
            const double friendly = c.start + 3 * (1 - o_.beta) / (1 + o_.beta) * (rtt > 0 ? t / rtt : 0);
            const double target = std::clamp(std::max(cubic, friendly), c.window, 1.5 * c.window);
            c.window += (target - c.window) / c.window * ack.acked;
        }
        s.window_bytes = c.window * payload_;
    }

    void on_loss(Sender& s, Ps, bool timeout) override {
        State& c = s.as<State>();
        c.maximum = c.window;
        c.threshold = std::max(2.0, c.window * o_.beta);
        c.window = timeout ? 1 : c.threshold;
        c.epoch = NEVER;
        s.window_bytes = c.window * payload_;
    }

  private:
    struct State {
        double window, threshold, maximum, wait;  // packets, packets, packets, seconds until the old maximum
        Ps epoch;
        double start = 0;
    };
    CubicOptions o_;
    double payload_;
};

}  // namespace railwright::packet
