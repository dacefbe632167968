// The packet engine: one class that owns all state; its parts by job are in the `engine_*.hpp` files that `engine.cpp` joins
// into one translation unit, so that the hot path is inlined.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "packet/buffer.hpp"
#include "packet/congestion.hpp"
#include "packet/flow.hpp"
#include "packet/operations.hpp"
#include "packet/options.hpp"
#include "packet/port.hpp"
#include "packet/wheel.hpp"
#include "routing/routes.hpp"

namespace railwright::packet {

enum Paths : int { ECMP, POLARISED, RAIL, SPRAY_RANDOM, SPRAY_ROUND_ROBIN, ADAPTIVE, FLOWLET, MULTIPATH };

struct LinkColumns {
    const double* gbps;
    const std::int64_t* delay_ps;
    const double* headroom_bytes;    // at the end of the link
    const double* loss;              // probability that a packet is corrupted; null: none
    const double* loss_burst;        // mean packets per burst
    const double* node_buffer_bytes; // 0: unknown
    const std::int64_t* node_latency_ps;
    // Thresholds of single queues, [link x classes], NaN: as the class says. The first three count at the end of the link,
    // the others at its source. Null: none.
    const double* queue_headroom;
    const double* queue_reserve;
    const double* queue_xoff;
    const double* queue_kmin;
    const double* queue_kmax;
    const double* queue_pmax;
};

// Something that happens to the network at a time.
enum ChangeKind : std::uint8_t { LINK_DOWN, LINK_UP, NODE_DOWN, NODE_UP, STORM_ON, STORM_OFF };
struct Change {
    Ps time;
    ChangeKind kind;
    std::int32_t subject;  // directed link, or node
};

struct Sample {
    Ps time;
    std::uint32_t link;
    std::uint8_t cls;
    std::uint32_t queued;
};

// What a link has carried until then (all classes and control frames), packets marked, and how long its classes were paused.
struct LinkSample {
    Ps time;
    std::uint32_t link;
    std::uint32_t marks;
    std::int64_t bytes;
    Ps paused;
};

// Why a packet was lost.
enum class Loss : std::uint8_t { LOSSY_QUEUE, HEADROOM, CORRUPTED, LINK_DOWN, NO_PATH, WATCHDOG, COUNT };

struct Counters {
    std::uint64_t events = 0, data_packets = 0, data_packet_hops = 0, packet_hops = 0, again_packets = 0;
    std::uint64_t pause_frames = 0, resume_frames = 0, marks = 0, notifications = 0, drops = 0, corrupted = 0;
    std::uint64_t delivered_bytes = 0, out_of_order = 0, duplicates = 0, timeouts = 0, nacks = 0, watchdog = 0, rerouted = 0;
    std::uint64_t unreachable = 0;
    std::uint64_t lost[static_cast<std::size_t>(Loss::COUNT)] = {};
};

enum class Ending : std::uint8_t { RUNNING, FINISHED, LOST_TAIL, PAUSE_DEADLOCK, CREDIT_DEADLOCK, DEPENDENCY_CYCLE, UNREACHABLE,
                                   RETRY_EXCEEDED, PAUSED_FOREVER, TIME_LIMIT };

class Engine {
  public:
    Engine(const NetworkView& network, const LinkColumns& columns, const Operations& ops, const std::vector<Change>& changes,
           const Options& options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Go on for at most `budget` events; true when the run has ended (see `ending`).
    bool run(std::uint64_t budget);

    Ending ending = Ending::RUNNING;
    std::vector<std::uint32_t> culprits;  // lanes of the cycle, or operations that cannot finish
    Counters counters;
    Ps now = 0;

    const std::vector<OpState>& operations() const { return op_; }
    const std::vector<Port>& ports() const { return ports_; }
    const std::vector<Lane>& lanes() const { return lanes_; }
    const std::vector<PauseState>& pauses() const { return pauses_; }
    const std::vector<Pool>& pools() const { return pools_; }
    const std::vector<Sample>& samples() const { return samples_; }
    const std::vector<LinkSample>& link_samples() const { return link_samples_; }
    const std::vector<Profile>& profiles() const { return profiles_; }
    const std::vector<Budget>& budgets() const { return budgets_; }
    int lane_bits() const { return lane_bits_; }
    int classes() const { return classes_; }
    std::int64_t threshold_min_seen() const { return threshold_min_; }

  private:
    enum What : std::uint32_t { CHANGE, ARRIVAL, TX_DONE, CREDIT, FLOW_READY, OPERATION, TIMEOUT, REROUTE, EXPIRE, REFRESH, WATCHDOG, SAMPLE };
    static std::uint32_t what(What kind, std::uint32_t index) { return (static_cast<std::uint32_t>(kind) << 28) | index; }

    // engine_setup.hpp
    void make_ports(const LinkColumns& columns);
    std::uint16_t profile_of(const Profile& profile);

    // engine_link.hpp: transmission
    std::uint32_t lane_of(std::uint32_t link, std::uint32_t cls) const { return (link << lane_bits_) | cls; }
    std::uint32_t control_lane(std::uint32_t link) const { return (link << lane_bits_) | lane_mask_; }
    Ps duration(const Port& port, std::uint32_t bytes) const;
    void fly(Port& port, std::uint32_t lane, Packet& packet);
    void transmit_new(Port& port, std::uint32_t lane, const Packet& packet);
    void enqueue(std::uint32_t link, std::uint32_t lane, const Packet& packet);
    void send_or_enqueue(std::uint32_t link, std::uint32_t lane, const Packet& packet);
    void serve(std::uint32_t link);
    int pick(Port& port, std::uint32_t link);
    std::uint32_t head_bytes(const Port& port, std::uint32_t link, int cls) const;
    bool passes_first(Port& port, std::uint32_t link, std::uint32_t cls);
    void send_waiting(Port& port, std::uint32_t link, std::uint32_t cls);
    void on_arrival(std::uint32_t lane);
    bool corrupted(std::uint32_t link);
    void drop(const Packet& packet, std::uint32_t out_lane, Loss why);
    void stamp(Packet& packet, const Port& port, std::uint32_t queued);

    // engine_switch.hpp
    void forward(Packet packet, std::uint32_t in_lane);
    std::uint32_t next_link(Packet& packet, std::int32_t node);
    std::uint32_t choose(const LinkSpan& links, std::uint32_t cls, std::int32_t node);
    void leave(std::uint32_t in_lane, std::uint32_t bytes);
    void mark(Packet& packet, Lane& lane);

    // engine_pause.hpp
    void send_pause(std::uint32_t in_lane);
    void send_resume(std::uint32_t in_lane);
    void check_resume(std::uint32_t in_lane);
    void on_pause_frame(const Packet& packet, std::uint32_t lane);
    void end_pause(std::uint32_t lane);
    Ps paused_so_far(std::uint32_t lane) const;
    void on_expire(std::uint32_t lane);
    void on_refresh(std::uint32_t lane);
    void on_watchdog(std::uint32_t lane);
    Ps quanta_time(const Port& port) const;

    // engine_credit.hpp
    bool has_credit(std::uint32_t lane, std::uint32_t bytes);
    void return_credit(std::uint32_t lane, std::uint32_t bytes);
    void await_credit(Port& port, std::uint32_t lane);
    void on_credit(std::uint32_t lane);

    // engine_nic.hpp
    void start_flow(std::uint32_t op, std::int64_t bytes, std::uint32_t queue_pair);
    void note_last(const Port& port, const Sender& s, Packet& packet);
    void send_from_flow(Port& port, std::uint32_t link, std::uint32_t cls);
    bool may_send(const Sender& s) const;
    std::uint32_t next_packet(Sender& s);
    void skip_acknowledged(Sender& s);
    void place(std::uint32_t flow, Sender& s);
    void wake(std::uint32_t flow);
    void on_flow_ready(std::uint32_t flow);
    void receive(const Packet& packet, std::uint32_t lane);
    void receive_data(const Packet& packet);
    void receive_ack(const Packet& packet);
    void acknowledge(std::uint32_t flow, Receiver& r, const Packet& cause, Kind kind);
    void arm_timeout(std::uint32_t flow, Sender& s);
    void on_timeout(std::uint32_t flow);
    Ps timeout_of(const Sender& s) const;
    void close(std::uint32_t flow, bool failed);
    void maybe_recycle(std::uint32_t flow);
    std::vector<std::uint64_t>& bitmap(std::uint32_t& index, std::uint32_t packets);

    // engine_paths.hpp
    bool store_paths(std::uint32_t flow, std::uint32_t op, std::uint32_t entropy, std::int64_t bytes);
    bool find_path(std::int32_t src, std::int32_t dst, std::uint32_t entropy, std::vector<std::int32_t>& path);
    Ps ideal_time(const std::vector<std::int32_t>& path, std::int64_t bytes, std::uint32_t repeat) const;
    Ps base_round_trip(const std::vector<std::int32_t>& path) const;
    void reroute_flows();

    // engine_operations.hpp
    void hold(std::uint32_t op);
    void on_operation(std::uint32_t op);
    void try_next(std::uint32_t op);
    void complete(std::uint32_t op);
    void settle();

    // engine_changes.hpp
    void set_subject(const Change& change);
    void learn(const Change& change);
    void on_change(std::uint32_t index);
    void set_port(std::uint32_t link, bool up);
    void on_sample();
    void diagnose();
    bool find_wait_cycle(Ps paused_before);
    bool find_paused(Ps paused_before);
    bool find_deadlock(Ps waited, bool giving_up);

    double random() {
        random_ ^= random_ >> 12;
        random_ ^= random_ << 25;
        random_ ^= random_ >> 27;
        return static_cast<double>((random_ * 0x2545f4914f6cdd1dULL) >> 11) * 0x1.0p-53;
    }
    void push(Ps time, What kind, std::uint32_t index) { wheel_.push(time, what(kind, index)); }
    void push_background(Ps time, What kind, std::uint32_t index) {
        ++background_;
        wheel_.push(time, what(kind, index));
    }

    NetworkView network_;
    Operations ops_;
    Options o_;
    Routes routes_;
    Wheel wheel_;
    std::uint64_t random_;
    std::size_t background_ = 0;  // events that alone do not keep a run alive

    int classes_, lane_bits_;
    std::uint32_t lane_mask_;
    std::uint16_t strict_mask_ = 0, lossless_mask_ = 0;
    std::vector<Port> ports_;
    std::vector<Lane> lanes_;
    std::vector<PauseState> pauses_;
    std::vector<CreditReturns> returns_;
    std::vector<std::int32_t> deficit_;
    std::vector<Profile> profiles_;
    std::vector<Pool> pools_;
    std::vector<std::uint32_t> turn_of_node_;  // spray round robin
    std::vector<SendQueue> send_queues_;
    std::vector<double> loss_, loss_burst_;
    std::vector<std::uint8_t> loss_state_;
    std::int64_t threshold_min_ = INT64_MAX;

    std::vector<Sender> senders_;
    std::vector<Receiver> receivers_;
    std::vector<std::vector<std::uint32_t>> free_flows_;  // by class
    std::vector<std::vector<std::uint64_t>> bitmaps_;
    std::vector<std::uint32_t> free_bitmaps_;
    std::vector<std::int32_t> path_store_{-1};
    std::vector<std::vector<std::uint32_t>> free_paths_;  // by length
    std::vector<std::unique_ptr<Control>> controls_;      // per class
    TelemetryPool telemetry_;
    bool telemetry_used_ = false;

    std::vector<OpState> op_;
    std::vector<Budget> budgets_;  // of every operation, when asked for
    Dependents dependents_, gated_;
    std::vector<std::int32_t> forth_, back_, combined_;   // scratch
    std::vector<std::uint32_t> done_flows_of_;  // operations with a flow that ended in this event
    std::vector<std::uint32_t> completed_;      // operations with a repetition that ended in this event
    std::uint32_t unfinished_ = 0;
    std::vector<Change> changes_;
    std::vector<Sample> samples_;
    std::vector<LinkSample> link_samples_;
    Ps sample_every_ = 0;
    Ps next_search_ = 0;  // for a deadlock, at timeouts
};

}  // namespace railwright::packet
