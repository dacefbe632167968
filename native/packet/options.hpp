// What a run is told, beyond the network and the operations. The Python face (`simulate/packet/options.py`) documents and
// checks every value; the names are the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace railwright::packet {

struct ClassOptions {
    bool lossless = true;
    bool strict = false;      // served before all weighted classes; among strict ones the lower index first
    int weight = 1;           // share among the weighted classes
    double alpha = 0.125;     // dynamic threshold: share of the free pool that one queue may take
    double xoff_bytes = 0;    // > 0: a static pause threshold instead
    double xon_offset_bytes = 3072;
    double reserve_bytes = 4096;
    double kmin_bytes = 0, kmax_bytes = 0, pmax = 0;  // kmax 0: no marking
    std::string congestion_control = "none";
    bool selective_repeat = false;
    int reorder_packets = 0;  // selective repeat: how far a later packet must be ahead before a hole counts as lost
    double rto_us = 0;        // 0: no retransmission timeout
    double rto_min_us = 0;    // > 0: timeout from the measured round trip (TCP), never below this
    int retry_limit = 7;      // 0: for ever
    double window_bytes = 0;  // 0: no window
    int queue_pairs = 1;
};

struct DcqcnOptions {
    bool standard = true;  // cut at the notification, byte counter; false: as the peer does it
    double g = 1.0 / 256;
    double alpha_timer_us = 55, decrease_interval_us = 4, increase_timer_us = 55;
    double byte_counter_bytes = 10e6;
    int fast_recovery = 5;
    double additive_share = 1e-3, hyper_share = 1e-2;  // of the line rate
    double minimum_gbps = 0.1;
    bool clamp_target = false;
};

struct HpccOptions {
    double eta = 0.95;
    int max_stage = 5;
    double additive_gbps = 0.04, minimum_gbps = 0.1;
    bool fast_react = true;
    double base_rtt_us = 0;  // 0: of each path
};

struct DctcpOptions {
    double g = 1.0 / 16;
    double additive_gbps = 0.6, minimum_gbps = 0.1;
};

struct IbccOptions {
    int increase = 1, limit = 127;
    double timer_us = 153.6, table_base = 1.05;
};

struct CubicOptions {
    double beta = 0.7, c = 0.4;
    double initial_packets = 10;
};

struct Options {
    std::uint64_t seed = 0;
    int payload_bytes = 4096;
    int header_bytes = 82, ack_bytes = 86, cnp_bytes = 98, pause_frame_bytes = 84;
    bool round_to_ns = false;
    bool cut_through = false;
    int cut_through_bytes = 64;
    bool credits = false;                // InfiniBand link-level flow control instead of pause frames
    double credit_bytes = 65536;         // receive buffer per link and virtual lane
    int paths = 0;                       // engine.hpp: Paths
    double flowlet_gap_us = 10;
    int flowlet_paths = 16;
    bool scale_up = true;
    int ack_every = 1;
    bool notify_on_ack = false;          // every acknowledgement of a marked packet is a notification (as the peer)
    double notify_interval_us = 50;      // otherwise: at most one notification packet per flow in this time
    int notify_class = 0;
    int ack_class = -1;                  // -1: the class of the data
    bool mark_acks = false;
    bool ignore_duplicates = false;      // duplicates are not answered (as the peer)
    double nack_interval_us = 500;
    bool finish_at_sender = false;
    double buffer_bytes = 64e6;          // of a switch whose buffer the network does not tell
    double pause_quanta = 65535;         // 0: a pause holds until the resume
    double pause_response_ns = 0;        // from the arrival of a pause frame until no further packet starts
    double watchdog_detect_us = 0, watchdog_restore_us = 0;  // 0: no watchdog
    double reroute_us = 0;
    bool latency_budget = false;         // keep where the time of every operation's last packet went
    double sample_us = 0;
    std::int64_t sample_limit = 1000000;
    double time_limit_us = 0;
    std::vector<ClassOptions> classes;
    DcqcnOptions dcqcn;
    HpccOptions hpcc;
    DctcpOptions dctcp;
    CubicOptions cubic;
    IbccOptions ibcc;
};

}  // namespace railwright::packet
