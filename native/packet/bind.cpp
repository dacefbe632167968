#include "packet/bind.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ctime>
#include <iterator>
#include <stdexcept>

#include "packet/engine.hpp"

namespace nb = nanobind;
using namespace railwright;
using namespace railwright::packet;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object array_of(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

template <class T, class Row, class Column>
nb::object column(const std::vector<Row>& rows, Column&& value) {
    std::vector<T> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(static_cast<T>(value(row)));
    return array_of(std::move(values));
}

// A named array of a dict of columns, checked for type and length.
template <class T>
const T* take(const nb::dict& columns, const char* name, std::size_t length, std::vector<nb::object>& keep) {
    const nb::object value = columns[name];
    const auto array = nb::cast<In<T>>(value);
    if (array.size() != length) throw std::invalid_argument(std::string("column of wrong length: ") + name);
    keep.push_back(nb::cast(array));
    keep.push_back(value);
    return array.data();
}

std::size_t length_of(const nb::dict& columns, const char* name) { return nb::len(nb::object(columns[name])); }

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

const char* name_of(Ending ending) {
    switch (ending) {
        case Ending::FINISHED: return "finished";
        case Ending::LOST_TAIL: return "lost-tail";
        case Ending::PAUSE_DEADLOCK: return "pause-deadlock";
        case Ending::CREDIT_DEADLOCK: return "credit-deadlock";
        case Ending::DEPENDENCY_CYCLE: return "dependency-cycle";
        case Ending::UNREACHABLE: return "unreachable";
        case Ending::RETRY_EXCEEDED: return "retry-exceeded";
        case Ending::PAUSED_FOREVER: return "paused-forever";
        case Ending::TIME_LIMIT: return "time-limit";
        case Ending::RUNNING: break;
    }
    return "running";
}

nb::dict results(const Engine& engine, double cpu_s) {
    nb::dict out;
    const auto& ops = engine.operations();
    out["start_ps"] = column<std::int64_t>(ops, [](const OpState& o) { return o.start; });
    out["finish_ps"] = column<std::int64_t>(ops, [](const OpState& o) { return o.finish; });
    out["ideal_ps"] = column<std::int64_t>(ops, [](const OpState& o) { return o.ideal; });
    out["hops"] = column<std::uint16_t>(ops, [](const OpState& o) { return o.hops; });
    out["again_bytes"] = column<std::int64_t>(ops, [](const OpState& o) { return o.again_bytes; });

    const auto& ports = engine.ports();
    const int bits = engine.lane_bits(), classes = engine.classes();
    out["link_bytes"] = column<std::int64_t>(ports, [](const Port& p) { return p.bytes; });
    std::vector<std::int64_t> queue(ports.size()), marks(ports.size()), drops(ports.size()), pause(ports.size()), ingress(ports.size());
    std::vector<std::int64_t> frames(ports.size()), longest(ports.size());
    for (std::size_t link = 0; link < ports.size(); ++link)
        for (std::size_t cls = 0; cls < std::size_t{1} << bits; ++cls) {
            const Lane& lane = engine.lanes()[(link << bits) | cls];
            const PauseState& state = engine.pauses()[(link << bits) | cls];
            if (static_cast<int>(cls) < classes) queue[link] = std::max<std::int64_t>(queue[link], lane.queued_max);
            marks[link] += lane.marks;
            drops[link] += lane.drops;
            const Ps open = state.paused ? engine.now - state.since : 0;  // a pause that has not ended
            pause[link] += state.total + open;
            frames[link] += state.frames;
            longest[link] = std::max<std::int64_t>({longest[link], state.longest, open});
        }
    out["link_queue_max"] = array_of(std::move(queue));
    out["link_marks"] = array_of(std::move(marks));
    out["link_drops"] = array_of(std::move(drops));
    out["link_pause_ps"] = array_of(std::move(pause));
    out["link_pause_frames"] = array_of(std::move(frames));
    out["link_longest_pause_ps"] = array_of(std::move(longest));
    std::vector<std::int64_t> class_queue(static_cast<std::size_t>(classes));  // longest at a switch
    for (std::size_t link = 0; link < ports.size(); ++link)
        for (std::size_t cls = 0; ports[link].starts_at_switch && cls < class_queue.size(); ++cls)
            class_queue[cls] = std::max<std::int64_t>(class_queue[cls], engine.lanes()[(link << bits) | cls].queued_max);
    out["class_queue_max"] = array_of(std::move(class_queue));
    out["pool_headroom"] = column<std::int64_t>(engine.pools(), [](const Pool& p) { return p.headroom; });
    out["pool_headroom_max"] = column<std::int64_t>(engine.pools(), [](const Pool& p) { return p.headroom_max; });
    out["pool_used_max"] = column<std::int64_t>(engine.pools(), [](const Pool& p) { return p.used_max; });
    out["pool_capacity"] = column<std::int64_t>(engine.pools(), [](const Pool& p) { return p.capacity; });

    const auto& samples = engine.samples();
    out["sample_ps"] = column<std::int64_t>(samples, [](const Sample& s) { return s.time; });
    out["sample_link"] = column<std::uint32_t>(samples, [](const Sample& s) { return s.link; });
    out["sample_class"] = column<std::uint8_t>(samples, [](const Sample& s) { return s.cls; });
    out["sample_queued"] = column<std::uint32_t>(samples, [](const Sample& s) { return s.queued; });
    const auto& carried = engine.link_samples();
    out["link_sample_ps"] = column<std::int64_t>(carried, [](const LinkSample& s) { return s.time; });
    out["link_sample_link"] = column<std::uint32_t>(carried, [](const LinkSample& s) { return s.link; });
    out["link_sample_bytes"] = column<std::int64_t>(carried, [](const LinkSample& s) { return s.bytes; });
    out["link_sample_marks"] = column<std::uint32_t>(carried, [](const LinkSample& s) { return s.marks; });
    out["link_sample_pause_ps"] = column<std::int64_t>(carried, [](const LinkSample& s) { return s.paused; });

    nb::dict budget;
    const auto& budgets = engine.budgets();
    budget["sender_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.sender - b.sender_paused; });
    budget["again_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.again; });
    budget["queueing_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.queueing - b.paused; });
    budget["paused_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.paused + b.sender_paused; });
    budget["propagation_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.propagation; });
    budget["switching_ps"] = column<std::int64_t>(budgets, [](const Budget& b) { return b.switching; });
    budget["first_link"] = column<std::uint32_t>(budgets, [](const Budget& b) { return b.first_link; });
    out["budget"] = budget;

    nb::dict counters;
    const Counters& c = engine.counters;
    counters["events"] = c.events;
    counters["data_packets"] = c.data_packets;
    counters["data_packet_hops"] = c.data_packet_hops;
    counters["packet_hops"] = c.packet_hops;
    counters["retransmitted_packets"] = c.again_packets;
    counters["pause_frames"] = c.pause_frames;
    counters["resume_frames"] = c.resume_frames;
    counters["ecn_marks"] = c.marks;
    counters["cnps"] = c.notifications;
    counters["drops"] = c.drops;
    counters["corrupted"] = c.corrupted;
    counters["out_of_order"] = c.out_of_order;
    counters["duplicates"] = c.duplicates;
    counters["timeouts"] = c.timeouts;
    counters["nacks"] = c.nacks;
    counters["watchdog"] = c.watchdog;
    counters["rerouted"] = c.rerouted;
    counters["unreachable"] = c.unreachable;
    const char* reasons[] = {"lossy_queue", "headroom", "corrupted", "link_down", "no_path", "watchdog"};
    static_assert(std::size(reasons) == static_cast<std::size_t>(Loss::COUNT));
    nb::dict lost;
    for (std::size_t why = 0; why < std::size(reasons); ++why) lost[reasons[why]] = c.lost[why];
    out["lost"] = lost;
    out["counters"] = counters;
    out["cpu_s"] = cpu_s;
    out["end_ps"] = engine.now;
    out["ending"] = name_of(engine.ending);
    out["lane_bits"] = bits;
    out["culprits"] = array_of(std::vector<std::uint32_t>(engine.culprits));
    return out;
}

nb::dict simulate(const nb::dict& network, const nb::dict& operations, const nb::dict& changes, const Options& options) {
    std::vector<nb::object> keep;  // the arrays must outlive the engine
    NetworkView view;
    const std::size_t nodes = length_of(network, "node_kind"), links = length_of(network, "link_src");
    view.nodes = static_cast<std::int32_t>(nodes);
    view.links = static_cast<std::int32_t>(links);
    view.node_kind = take<std::uint8_t>(network, "node_kind", nodes, keep);
    view.link_src = take<std::int32_t>(network, "link_src", links, keep);
    view.link_dst = take<std::int32_t>(network, "link_dst", links, keep);
    LinkColumns columns{};
    columns.gbps = take<double>(network, "link_gbps", links, keep);
    columns.delay_ps = take<std::int64_t>(network, "link_delay_ps", links, keep);
    columns.headroom_bytes = take<double>(network, "link_headroom_bytes", links, keep);
    if (length_of(network, "link_loss")) {
        columns.loss = take<double>(network, "link_loss", links, keep);
        columns.loss_burst = take<double>(network, "link_loss_burst", links, keep);
    }
    if (length_of(network, "queue_kmin")) {
        const std::size_t queues = links * options.classes.size();
        columns.queue_headroom = take<double>(network, "queue_headroom", queues, keep);
        columns.queue_reserve = take<double>(network, "queue_reserve", queues, keep);
        columns.queue_xoff = take<double>(network, "queue_xoff", queues, keep);
        columns.queue_kmin = take<double>(network, "queue_kmin", queues, keep);
        columns.queue_kmax = take<double>(network, "queue_kmax", queues, keep);
        columns.queue_pmax = take<double>(network, "queue_pmax", queues, keep);
    }
    columns.node_buffer_bytes = take<double>(network, "node_buffer_bytes", nodes, keep);
    columns.node_latency_ps = take<std::int64_t>(network, "node_latency_ps", nodes, keep);
    Operations ops;
    const std::size_t n = length_of(operations, "kind");
    ops.n = static_cast<std::uint32_t>(n);
    ops.kind = take<std::uint8_t>(operations, "kind", n, keep);
    ops.src = take<std::int32_t>(operations, "src", n, keep);
    ops.dst = take<std::int32_t>(operations, "dst", n, keep);
    ops.bytes = take<std::int64_t>(operations, "bytes", n, keep);
    ops.duration_ps = take<std::int64_t>(operations, "duration_ps", n, keep);
    ops.start_ps = take<std::int64_t>(operations, "start_ps", n, keep);
    ops.repeat = take<std::uint32_t>(operations, "repeat", n, keep);
    ops.cls = take<std::uint8_t>(operations, "cls", n, keep);
    ops.entropy = take<std::uint32_t>(operations, "entropy", n, keep);
    ops.after_offset = take<std::int64_t>(operations, "after_offset", n + 1, keep);
    ops.after = take<std::uint32_t>(operations, "after", length_of(operations, "after"), keep);
    ops.gate_offset = take<std::int64_t>(operations, "gate_offset", n + 1, keep);
    ops.gate = take<std::uint32_t>(operations, "gate", length_of(operations, "gate"), keep);
    ops.gate_lead = take<std::uint8_t>(operations, "gate_lead", length_of(operations, "gate"), keep);
    ops.path_offset = take<std::int64_t>(operations, "path_offset", n + 1, keep);
    ops.path = take<std::int32_t>(operations, "path", length_of(operations, "path"), keep);
    std::vector<Change> happens;
    const std::size_t count = length_of(changes, "time_ps");
    const auto* time = take<std::int64_t>(changes, "time_ps", count, keep);
    const auto* kind = take<std::uint8_t>(changes, "kind", count, keep);
    const auto* subject = take<std::int32_t>(changes, "subject", count, keep);
    for (std::size_t i = 0; i < count; ++i) happens.push_back({time[i], static_cast<ChangeKind>(kind[i]), subject[i]});
    if (options.classes.empty() || options.classes.size() > 7) throw std::invalid_argument("one to seven traffic classes");

    const double before = cpu_seconds();
    Engine engine(view, columns, ops, happens, options);
    for (bool ended = false; !ended;) {
        {
            nb::gil_scoped_release release;
            ended = engine.run(2'000'000);
        }
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return results(engine, cpu_seconds() - before);
}

}  // namespace

#define FIELD(owner, name) def_rw(#name, &owner::name)

void bind_packet(nb::module_& m) {
    nb::class_<ClassOptions>(m, "PacketClass")
        .def(nb::init<>())
        .FIELD(ClassOptions, lossless)
        .FIELD(ClassOptions, strict)
        .FIELD(ClassOptions, weight)
        .FIELD(ClassOptions, alpha)
        .FIELD(ClassOptions, xoff_bytes)
        .FIELD(ClassOptions, xon_offset_bytes)
        .FIELD(ClassOptions, reserve_bytes)
        .FIELD(ClassOptions, kmin_bytes)
        .FIELD(ClassOptions, kmax_bytes)
        .FIELD(ClassOptions, pmax)
        .FIELD(ClassOptions, congestion_control)
        .FIELD(ClassOptions, selective_repeat)
        .FIELD(ClassOptions, reorder_packets)
        .FIELD(ClassOptions, rto_us)
        .FIELD(ClassOptions, rto_min_us)
        .FIELD(ClassOptions, retry_limit)
        .FIELD(ClassOptions, window_bytes)
        .FIELD(ClassOptions, queue_pairs);
    nb::class_<DcqcnOptions>(m, "PacketDcqcn")
        .def(nb::init<>())
        .FIELD(DcqcnOptions, standard)
        .FIELD(DcqcnOptions, g)
        .FIELD(DcqcnOptions, alpha_timer_us)
        .FIELD(DcqcnOptions, decrease_interval_us)
        .FIELD(DcqcnOptions, increase_timer_us)
        .FIELD(DcqcnOptions, byte_counter_bytes)
        .FIELD(DcqcnOptions, fast_recovery)
        .FIELD(DcqcnOptions, additive_share)
        .FIELD(DcqcnOptions, hyper_share)
        .FIELD(DcqcnOptions, minimum_gbps)
        .FIELD(DcqcnOptions, clamp_target);
    nb::class_<HpccOptions>(m, "PacketHpcc")
        .def(nb::init<>())
        .FIELD(HpccOptions, eta)
        .FIELD(HpccOptions, max_stage)
        .FIELD(HpccOptions, additive_gbps)
        .FIELD(HpccOptions, minimum_gbps)
        .FIELD(HpccOptions, fast_react)
        .FIELD(HpccOptions, base_rtt_us);
    nb::class_<DctcpOptions>(m, "PacketDctcp")
        .def(nb::init<>())
        .FIELD(DctcpOptions, g)
        .FIELD(DctcpOptions, additive_gbps)
        .FIELD(DctcpOptions, minimum_gbps);
    nb::class_<CubicOptions>(m, "PacketCubic")
        .def(nb::init<>())
        .FIELD(CubicOptions, beta)
        .FIELD(CubicOptions, c)
        .FIELD(CubicOptions, initial_packets);
    nb::class_<IbccOptions>(m, "PacketIbcc")
        .def(nb::init<>())
        .FIELD(IbccOptions, increase)
        .FIELD(IbccOptions, limit)
        .FIELD(IbccOptions, timer_us)
        .FIELD(IbccOptions, table_base);
    nb::class_<Options>(m, "PacketRun")
        .def(nb::init<>())
        .FIELD(Options, seed)
        .FIELD(Options, payload_bytes)
        .FIELD(Options, header_bytes)
        .FIELD(Options, ack_bytes)
        .FIELD(Options, cnp_bytes)
        .FIELD(Options, pause_frame_bytes)
        .FIELD(Options, round_to_ns)
        .FIELD(Options, cut_through)
        .FIELD(Options, cut_through_bytes)
        .FIELD(Options, credits)
        .FIELD(Options, credit_bytes)
        .FIELD(Options, paths)
        .FIELD(Options, flowlet_gap_us)
        .FIELD(Options, flowlet_paths)
        .FIELD(Options, scale_up)
        .FIELD(Options, ack_every)
        .FIELD(Options, notify_on_ack)
        .FIELD(Options, notify_interval_us)
        .FIELD(Options, notify_class)
        .FIELD(Options, ack_class)
        .FIELD(Options, mark_acks)
        .FIELD(Options, ignore_duplicates)
        .FIELD(Options, nack_interval_us)
        .FIELD(Options, finish_at_sender)
        .FIELD(Options, buffer_bytes)
        .FIELD(Options, pause_quanta)
        .FIELD(Options, pause_response_ns)
        .FIELD(Options, watchdog_detect_us)
        .FIELD(Options, watchdog_restore_us)
        .FIELD(Options, reroute_us)
        .FIELD(Options, latency_budget)
        .FIELD(Options, sample_us)
        .FIELD(Options, sample_limit)
        .FIELD(Options, time_limit_us)
        .FIELD(Options, classes)
        .FIELD(Options, dcqcn)
        .FIELD(Options, hpcc)
        .FIELD(Options, dctcp)
        .FIELD(Options, cubic)
        .FIELD(Options, ibcc);
    m.def("simulate_packets", &simulate, nb::arg("network"), nb::arg("operations"), nb::arg("changes"), nb::arg("options"));
}
