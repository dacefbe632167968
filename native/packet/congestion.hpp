// What a congestion control is: it sets `rate_bps` and `window_bytes` of a sender when it hears of it. A further one is a
// class like those in `control_*.hpp` and a line in `make_control`.
//
// Timers are not events: a control that has them catches up in `before_send` and before it uses its state, which gives the
// same rates at the same packets (a rate only matters when a packet is sent) at no cost while nothing is sent.
#pragma once
#include "packet/flow.hpp"
#include "packet/telemetry.hpp"

namespace railwright::packet {

class Control {
  public:
    virtual ~Control() = default;
    virtual void start(Sender&, Ps /*now*/, Ps /*base_rtt*/) {}
    virtual void before_send(Sender&, Ps /*now*/) {}
    virtual void on_sent(Sender&, double /*bytes*/) {}
    virtual void on_ack(Sender&, const AckInfo&, const Telemetry*) {}
    virtual void on_notification(Sender&, Ps /*now*/) {}
    virtual void on_loss(Sender&, Ps /*now*/, bool /*timeout*/) {}
    virtual void finish(Sender&) {}
    bool hears_send = false;  // whether before_send and on_sent do anything
    bool wants_telemetry = false;
};

}  // namespace railwright::packet
