#include "packet/engine.hpp"

#include <cmath>
#include <stdexcept>

#include "packet/control_cubic.hpp"
#include "packet/control_dcqcn.hpp"
#include "packet/control_dctcp.hpp"
#include "packet/control_hpcc.hpp"
#include "packet/control_ibcc.hpp"
#include "packet/engine_changes.hpp"
#include "packet/engine_credit.hpp"
#include "packet/engine_link.hpp"
#include "packet/engine_nic.hpp"
#include "packet/engine_operations.hpp"
#include "packet/engine_paths.hpp"
#include "packet/engine_pause.hpp"
#include "packet/engine_switch.hpp"

namespace railwright::packet {

namespace {

std::unique_ptr<Control> make_control(const std::string& name, const Options& o) {
    if (name == "none") return std::make_unique<Control>();
    if (name == "dcqcn") return std::make_unique<Dcqcn>(o.dcqcn);
    if (name == "hpcc") return std::make_unique<Hpcc>(o.hpcc);
    if (name == "dctcp") return std::make_unique<Dctcp>(o.dctcp);
    if (name == "cubic") return std::make_unique<Cubic>(o.cubic, o.payload_bytes);
    if (name == "ibcc") return std::make_unique<Ibcc>(o.ibcc);
    throw std::invalid_argument("unknown congestion control " + name);
}

// Buckets so narrow that few events share one, and so many that an ordinary link fits into the horizon.
Wheel make_wheel(const NetworkView& network, const LinkColumns& columns, const Options& o) {
    double events_per_ps = 0;
    std::int64_t longest = 0;
    for (std::int32_t link = 0; link < network.links; ++link) {
        const double packet_ps = 8000.0 / columns.gbps[link] * (o.payload_bytes + o.header_bytes);
        events_per_ps += 1.5 / packet_ps;
        longest = std::max(longest, columns.delay_ps[link] + static_cast<std::int64_t>(packet_ps) +
                                        columns.node_latency_ps[network.link_dst[link]]);
    }
    int shift = 4;
    while (shift < 14 && static_cast<double>(1 << (shift + 1)) * events_per_ps < 3) ++shift;
    std::uint32_t slots = 1 << 10;
    while (slots < (1u << 18) && (static_cast<std::int64_t>(slots) << shift) < longest + longest / 4) slots *= 2;
    return Wheel(shift, slots);
}

}  // namespace

Engine::Engine(const NetworkView& network, const LinkColumns& columns, const Operations& ops, const std::vector<Change>& changes,
               const Options& options)
    : network_(network),
      ops_(ops),
      o_(options),
      routes_(network, nullptr, nullptr),
      wheel_(make_wheel(network, columns, options)),
      random_(mix64(options.seed + 0x9e3779b97f4a7c15ULL) | 1),
      classes_(static_cast<int>(options.classes.size())),
      op_(ops.n),
      dependents_(ops.n, ops.after_offset, ops.after),
      gated_(ops.n, ops.gate_offset, ops.gate),
      unfinished_(ops.n),
      changes_(changes) {
    lane_bits_ = 1;
    while ((1 << lane_bits_) < classes_ + 1) ++lane_bits_;
    lane_mask_ = (1u << lane_bits_) - 1;
    for (int cls = 0; cls < classes_; ++cls) {
        if (o_.classes[cls].strict) strict_mask_ |= static_cast<std::uint16_t>(1u << cls);
        if (o_.classes[cls].lossless) lossless_mask_ |= static_cast<std::uint16_t>(1u << cls);
        controls_.push_back(make_control(o_.classes[cls].congestion_control, o_));
        telemetry_used_ |= controls_.back()->wants_telemetry;
    }
    free_flows_.resize(static_cast<std::size_t>(classes_));
    if (o_.latency_budget) budgets_.resize(ops.n);
    free_paths_.resize(16);
    make_ports(columns);
    turn_of_node_.assign(static_cast<std::size_t>(network.nodes), 0);
    if (columns.loss) {
        loss_.assign(columns.loss, columns.loss + network.links);
        loss_burst_.assign(columns.loss_burst, columns.loss_burst + network.links);
        loss_state_.assign(static_cast<std::size_t>(network.links), 0);
    }
    for (std::uint32_t op = 0; op < ops.n; ++op) {
        op_[op].waits_for = static_cast<std::uint32_t>(ops.after_offset[op + 1] - ops.after_offset[op]);
    }
    for (std::uint32_t op = 0; op < ops.n; ++op)
        if (op_[op].waits_for == 0)
            push(static_cast<Ps>(ops.start_ps[op]) + (ops.kind[op] == SEND ? ops.duration_ps[op] : 0), OPERATION, op);
    for (std::uint32_t i = 0; i < changes_.size(); ++i) {
        const Change& change = changes_[i];
        if (change.time > 0 || change.kind == STORM_ON || change.kind == STORM_OFF) {
            push_background(change.time, CHANGE, i);
        } else {  // broken before anything starts: nobody has to find out
            set_subject(change);
            learn(change);
        }
    }
    sample_every_ = static_cast<Ps>(o_.sample_us * 1e6);
    if (sample_every_ > 0) push_background(sample_every_, SAMPLE, 0);
}

Engine::~Engine() {
    for (Lane& lane : lanes_) std::free(lane.ring.data);
}

std::uint16_t Engine::profile_of(const Profile& profile) {
    for (std::size_t i = 0; i < profiles_.size(); ++i)
        if (profiles_[i] == profile) return static_cast<std::uint16_t>(i);
    if (profiles_.size() == UINT16_MAX) throw std::invalid_argument("more than 65,535 different buffer profiles");
    profiles_.push_back(profile);
    return static_cast<std::uint16_t>(profiles_.size() - 1);
}

void Engine::make_ports(const LinkColumns& columns) {
    const auto nodes = static_cast<std::size_t>(network_.nodes), links = static_cast<std::size_t>(network_.links);
    pools_.resize(nodes);
    std::vector<double> fastest_out(nodes, 0);
    for (std::size_t link = 0; link < links; ++link)
        fastest_out[network_.link_src[link]] = std::max(fastest_out[network_.link_src[link]], columns.gbps[link]);
    for (std::size_t node = 0; node < nodes; ++node) {
        const double told = columns.node_buffer_bytes[node];
        pools_[node].capacity = static_cast<std::int64_t>(told > 0 ? told : o_.buffer_bytes);
    }
    ports_.resize(links);
    lanes_.resize(links << lane_bits_);
    pauses_.resize(lanes_.size());
    deficit_.assign(lanes_.size(), 0);
    if (o_.credits) returns_.resize(lanes_.size());
    std::int32_t host_ports = 0;
    for (std::size_t link = 0; link < links; ++link) {
        Port& port = ports_[link];
        port.src = network_.link_src[link];
        port.dst = network_.link_dst[link];
        port.ps_per_byte_16 = static_cast<std::uint64_t>(std::llround(8000.0 / columns.gbps[link] * 65536));
        const bool switch_end = network_.node_kind[port.dst] == SWITCH;
        port.delay = columns.delay_ps[link] + (network_.node_kind[port.dst] != HOST ? columns.node_latency_ps[port.dst] : 0);
        port.frame_delay = columns.delay_ps[link] + static_cast<Ps>(o_.pause_response_ns * 1e3);
        port.ends_at_host = network_.node_kind[port.dst] == HOST;
        port.starts_at_switch = network_.node_kind[port.src] == SWITCH;
        port.early = o_.cut_through && switch_end && columns.gbps[link] >= fastest_out[port.dst];
        if (network_.node_kind[port.src] == HOST) port.host_port = host_ports++;
        for (int cls = 0; cls < classes_; ++cls) {
            const ClassOptions& c = o_.classes[cls];
            Lane& lane = lanes_[lane_of(static_cast<std::uint32_t>(link), static_cast<std::uint32_t>(cls))];
            const std::size_t queue = link * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(cls);
            const auto own = [queue](const double* column, double otherwise) {
                return column && !std::isnan(column[queue]) ? column[queue] : otherwise;
            };
            Profile profile{};
            profile.lossless = c.lossless;
            profile.reserve = c.lossless ? std::llround(own(columns.queue_reserve, c.reserve_bytes)) : 0;
            profile.headroom = c.lossless ? std::llround(own(columns.queue_headroom, columns.headroom_bytes[link])) : 0;
            profile.xon_offset = std::llround(c.xon_offset_bytes);
            profile.xoff = std::llround(own(columns.queue_xoff, c.xoff_bytes));
            profile.kmin = std::llround(own(columns.queue_kmin, c.kmin_bytes));
            profile.kmax = std::llround(own(columns.queue_kmax, c.kmax_bytes));
            profile.pmax = own(columns.queue_pmax, c.pmax);
            profile.alpha = c.alpha;
            lane.profile = profile_of(profile);
            lane.credit = static_cast<std::int32_t>(o_.credit_bytes);
            if (!switch_end) continue;
            pools_[port.dst].capacity -= profile.reserve + profile.headroom;
            pools_[port.dst].headroom += profile.headroom;
        }
        lanes_[control_lane(static_cast<std::uint32_t>(link))].profile = profile_of(Profile{});
    }
    send_queues_.resize(static_cast<std::size_t>(host_ports) * static_cast<std::size_t>(classes_));
}

bool Engine::run(std::uint64_t budget) {
    const Ps limit = o_.time_limit_us > 0 ? static_cast<Ps>(o_.time_limit_us * 1e6) : NEVER;
    while (unfinished_ && ending == Ending::RUNNING) {
        if (wheel_.size() == background_) {
            bool hope = false;  // a change to come, a watchdog, or a pause that runs out may still set things moving
            for (const Change& change : changes_) hope |= change.time > now;
            for (std::size_t lane = 0; !hope && lane < pauses_.size(); ++lane)
                hope = (pauses_[lane].watchdog_event && !pauses_[lane].ignored) || (pauses_[lane].expiry_event && !lanes_[lane].pausing);
            if (wheel_.empty() || !hope) {
                diagnose();
                return true;
            }
        }
        if (budget-- == 0) return false;
        const Event event = wheel_.pop();
        if (event.time > limit) {
            ending = Ending::TIME_LIMIT;
            return true;
        }
        now = event.time;
        ++counters.events;
        const std::uint32_t index = event.what & 0x0fffffff;
        switch (event.what >> 28) {
            case ARRIVAL: on_arrival(index); break;
            case TX_DONE:
                ports_[index].done_event = false;
                serve(index);
                break;
            case CREDIT: on_credit(index); break;
            case FLOW_READY: on_flow_ready(index); break;
            case OPERATION: on_operation(index); break;
            case TIMEOUT: on_timeout(index); break;
            case CHANGE:
                --background_;
                on_change(index);
                break;
            case REROUTE:
                learn(changes_[index]);
                reroute_flows();
                break;
            case EXPIRE:
                --background_;
                on_expire(index);
                break;
            case REFRESH:
                --background_;
                on_refresh(index);
                break;
            case WATCHDOG:
                --background_;
                on_watchdog(index);
                break;
            case SAMPLE:
                --background_;
                on_sample();
                break;
            default: break;
        }
        if (!done_flows_of_.empty() || !completed_.empty()) settle();
    }
    if (ending == Ending::RUNNING) ending = Ending::FINISHED;
    for (std::size_t lane = 0; lane < pauses_.size(); ++lane)
        if (pauses_[lane].paused) {
            pauses_[lane].total += now - pauses_[lane].since;
            pauses_[lane].since = now;
        }
    return true;
}

}  // namespace railwright::packet
