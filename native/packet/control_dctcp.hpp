// DCTCP as a rate control (Alizadeh et al., SIGCOMM 2010, in the form that the ns-3 RDMA lineage gives it): once per round
// the share of marked packets moves alpha; a mark cuts the rate by alpha/2 at most once per round, else it grows linearly.
#pragma once
#include <algorithm>

#include "packet/congestion.hpp"
#include "packet/options.hpp"

namespace railwright::packet {

class Dctcp final : public Control {
  public:
    explicit Dctcp(const DctcpOptions& options) : o_(options) {}

    void start(Sender& s, Ps, Ps) override { s.as<State>() = {1.0, 0, 0, 0, 0, false}; }

    void on_ack(Sender& s, const AckInfo& ack, const Telemetry*) override {
        State& c = s.as<State>();
        c.acked += ack.acked;
        c.marked += ack.marked;
        if (c.reduced && s.una > c.reduced_until) c.reduced = false;
        if (ack.marked && !c.reduced) {
            s.rate_bps = std::max(o_.minimum_gbps * 1e9, s.rate_bps * (1 - c.alpha / 2));
            c.reduced = true;
            c.reduced_until = s.nxt;
        }
        if (s.una <= c.round_end) return;
        if (c.acked) c.alpha = (1 - o_.g) * c.alpha + o_.g * std::min(1.0, static_cast<double>(c.marked) / c.acked);
        c.acked = c.marked = 0;
        c.round_end = s.nxt;
        if (!c.reduced) s.rate_bps = std::min(s.line_bps, s.rate_bps + o_.additive_gbps * 1e9);
    }

  private:
    struct State {
        double alpha;
        std::uint32_t acked, marked, round_end, reduced_until;
        bool reduced;
    };
    DctcpOptions o_;
};

}  // namespace railwright::packet
