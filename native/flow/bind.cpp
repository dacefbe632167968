#include "flow/bind.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "flow/fold.hpp"
#include "flow/sharing.hpp"
#include "flow/schedule.hpp"
#include "flow/spray.hpp"

namespace nb = nanobind;
using namespace railwright::flow;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object hand_over(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

template <class T>
std::vector<T> take(const nb::dict& from, const char* name) {
    const auto array = nb::cast<In<T>>(from[name]);
    return std::vector<T>(array.data(), array.data() + array.size());
}

void need(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("flow_run: ") + what);
}

void check_offsets(const std::vector<std::int64_t>& offset, std::size_t rows, std::size_t total, const char* what) {
    need(offset.size() == rows + 1 && offset.front() == 0 && offset.back() == static_cast<std::int64_t>(total), what);
    for (std::size_t i = 0; i < rows; ++i) need(offset[i] <= offset[i + 1], what);
}

template <class T>
void check_range(const std::vector<T>& values, std::int64_t lowest, std::size_t end, const char* what) {
    for (const T value : values)
        need(static_cast<std::int64_t>(value) >= lowest && static_cast<std::int64_t>(value) < static_cast<std::int64_t>(end), what);
}

void check(const Problem& p) {
    const std::size_t paths = p.path_offset.empty() ? 0 : p.path_offset.size() - 1;
    need(!p.path_offset.empty(), "path_offset is empty");
    check_offsets(p.path_offset, paths, p.path_link.size(), "path_offset");
    need(p.path_share.size() == p.path_link.size(), "path_share");
    check_range(p.path_link, 0, p.links(), "path_link");
    for (const double share : p.path_share) need(share > 0 && std::isfinite(share), "path_share is not positive");
    for (const double c : p.capacity) need(c >= 0 && std::isfinite(c), "capacity");
    const std::size_t ops = p.ops();
    need(p.op_duration.size() == ops && p.op_start.size() == ops && p.op_weight.size() == ops && p.op_cap.size() == ops &&
             p.op_handover.size() == ops &&
             p.op_priority.size() == ops && p.op_repeat.size() == ops,
         "operation arrays differ in length");
    check_offsets(p.flow_offset, ops, p.flows(), "flow_offset");
    need(p.flow_bytes.size() == p.flows() && p.flow_latency.size() == p.flows(), "flow arrays differ in length");
    check_range(p.flow_path, -1, paths, "flow_path");
    for (std::size_t op = 0; op < ops; ++op) {
        need(p.op_weight[op] > 0 && std::isfinite(p.op_weight[op]), "op_weight is not positive");
        need(p.op_cap[op] > 0, "op_cap is not positive");
        need(p.op_handover[op] >= 0 && std::isfinite(p.op_handover[op]), "op_handover");
        need(p.op_repeat[op] > 0, "op_repeat is 0");
        need(p.op_duration[op] >= 0 && std::isfinite(p.op_duration[op]) && std::isfinite(p.op_start[op]), "op times");
    }
    for (std::size_t f = 0; f < p.flows(); ++f)
        need(p.flow_bytes[f] >= 0 && std::isfinite(p.flow_bytes[f]) && p.flow_latency[f] >= 0 && std::isfinite(p.flow_latency[f]),
             "flow_bytes or flow_latency");
    check_offsets(p.wait_offset, ops, p.wait_op.size(), "wait_offset");
    need(p.wait_lag.size() == p.wait_op.size(), "wait_lag");
    check_range(p.wait_op, 0, ops, "wait_op");
    check_range(p.wait_lag, LEFT, 2, "wait_lag");
    need(p.link_change_link.size() == p.link_change_time.size() && p.link_change_capacity.size() == p.link_change_time.size(),
         "link_change arrays differ in length");
    check_range(p.link_change_link, 0, p.links(), "link_change_link");
    need(p.reroute_flow.size() == p.reroute_time.size() && p.reroute_path.size() == p.reroute_time.size() &&
             p.reroute_latency.size() == p.reroute_time.size(),
         "reroute arrays differ in length");
    check_range(p.reroute_flow, 0, p.flows(), "reroute_flow");
    check_range(p.reroute_path, -1, paths, "reroute_path");
}

Problem read(const nb::dict& d) {
    Problem p;
    p.capacity = take<double>(d, "capacity");
    p.path_offset = take<std::int64_t>(d, "path_offset");
    p.path_link = take<std::int32_t>(d, "path_link");
    p.path_share = take<double>(d, "path_share");
    p.op_kind = take<std::uint8_t>(d, "op_kind");
    p.op_duration = take<double>(d, "op_duration");
    p.op_start = take<double>(d, "op_start");
    p.op_weight = take<double>(d, "op_weight");
    p.op_cap = take<double>(d, "op_cap");
    p.op_handover = take<double>(d, "op_handover");
    p.op_priority = take<std::uint8_t>(d, "op_priority");
    p.op_repeat = take<std::uint32_t>(d, "op_repeat");
    p.flow_offset = take<std::int64_t>(d, "flow_offset");
    p.flow_path = take<std::int32_t>(d, "flow_path");
    p.flow_bytes = take<double>(d, "flow_bytes");
    p.flow_latency = take<double>(d, "flow_latency");
    p.wait_offset = take<std::int64_t>(d, "wait_offset");
    p.wait_op = take<std::uint32_t>(d, "wait_op");
    p.wait_lag = take<std::int8_t>(d, "wait_lag");
    p.link_change_time = take<double>(d, "link_change_time");
    p.link_change_link = take<std::int32_t>(d, "link_change_link");
    p.link_change_capacity = take<double>(d, "link_change_capacity");
    p.reroute_time = take<double>(d, "reroute_time");
    p.reroute_flow = take<std::uint32_t>(d, "reroute_flow");
    p.reroute_path = take<std::int32_t>(d, "reroute_path");
    p.reroute_latency = take<double>(d, "reroute_latency");
    check(p);
    return p;
}

// Lets Ctrl-C through about twenty times a second.
class Interrupts {
  public:
    void operator()() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(50)) return;
        last_ = now;
        nb::gil_scoped_acquire hold;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

template <class T>
void expand(std::vector<T>& values, const std::vector<std::uint32_t>& of, T missing) {
    std::vector<T> all(of.size(), missing);
    for (std::size_t i = 0; i < of.size(); ++i)
        if (of[i] != Folding::NO_CLASS) all[i] = values[of[i]];
    values = std::move(all);
}

nb::dict flow_run(const nb::dict& arrays, bool may_fold, std::uint64_t audit_every) {
    const Problem problem = read(arrays);
    Folding folding;
    Outcome out;
    {
        nb::gil_scoped_release release;
        if (may_fold) folding = fold(problem);
        Interrupts interrupts;
        const std::function<void()> poll = [&] { interrupts(); };
        if (folding.useful) {
            out = run(quotient(problem, folding), audit_every, poll);
            for (std::vector<double>* values : {&out.start, &out.finish}) expand(*values, folding.op_class, 0.0);
            for (std::vector<double>* values : {&out.link_bytes, &out.link_limited_bytes})
                expand(*values, folding.link_class, 0.0);
        } else {
            out = run(problem, audit_every, poll);
        }
    }
    nb::dict result;
    result["start"] = hand_over(std::move(out.start));
    result["finish"] = hand_over(std::move(out.finish));
    result["link_bytes"] = hand_over(std::move(out.link_bytes));
    result["link_limited_bytes"] = hand_over(std::move(out.link_limited_bytes));
    result["instants"] = out.instants;
    result["repetitions"] = out.repetitions;
    result["skipped"] = out.skipped;
    result["operations"] = static_cast<std::uint64_t>(folding.useful ? folding.op_classes : problem.ops());
    result["updates"] = out.work.updates;
    result["solves"] = out.work.solves;
    result["fills"] = out.work.fills;
    result["visits"] = out.work.visits;
    result["audit"] = out.audit;
    return result;
}

nb::dict spray_paths(In<std::uint8_t> node_kind, In<std::int32_t> link_src, In<std::int32_t> link_dst, In<std::uint8_t> link_up,
                     In<std::uint8_t> node_up, In<double> weight, In<std::int32_t> src, In<std::int32_t> dst, bool bundle) {
    railwright::NetworkView view;
    view.nodes = static_cast<std::int32_t>(node_kind.size());
    view.links = static_cast<std::int32_t>(link_src.size());
    view.node_kind = node_kind.data();
    view.link_src = link_src.data();
    view.link_dst = link_dst.data();
    if (link_dst.size() != link_src.size() || link_up.size() != link_src.size() || node_up.size() != node_kind.size() ||
        weight.size() != link_src.size() || dst.size() != src.size())
        throw std::invalid_argument("spray_paths: arrays of unequal length");
    for (std::int32_t link = 0; link < view.links; ++link)
        for (const std::int32_t end : {view.link_src[link], view.link_dst[link]})
            if (end < 0 || end >= view.nodes) throw std::invalid_argument("spray_paths: a link ends at a node that does not exist");
    for (std::size_t i = 0; i < src.size(); ++i)
        for (const std::int32_t end : {src.data()[i], dst.data()[i]})
            if (end < 0 || end >= view.nodes || view.node_kind[end] != railwright::HOST)
                throw std::invalid_argument("spray_paths: an endpoint is not a host");
    SprayPaths paths;
    {
        nb::gil_scoped_release release;
        railwright::Routes routes(view, link_up.data(), node_up.data());
        paths = spray(view, routes, weight.data(), src.data(), dst.data(), src.size(), bundle);
    }
    nb::dict result;
    result["offset"] = hand_over(std::move(paths.offset));
    result["link"] = hand_over(std::move(paths.link));
    result["share"] = hand_over(std::move(paths.share));
    result["unreachable"] = hand_over(std::move(paths.unreachable));
    result["stands_for"] = hand_over(std::move(paths.stands_for));
    return result;
}

nb::object max_min_rates(In<double> capacity, In<std::int64_t> path_offset, In<std::int32_t> path_link, In<double> path_share,
                         In<double> weight, In<double> cap, In<std::uint8_t> priority) {
    const std::size_t flows = weight.size();
    need(cap.size() == flows && priority.size() == flows && path_offset.size() == flows + 1, "flow arrays differ in length");
    need(path_share.size() == path_link.size(), "path_share");
    unsigned most = 0;
    for (std::size_t f = 0; f < flows; ++f) {
        need(weight.data()[f] > 0 && cap.data()[f] > 0, "weight or cap is not positive");
        most = std::max<unsigned>(most, priority.data()[f]);
    }
    for (std::size_t i = 0; i < path_link.size(); ++i)
        need(path_link.data()[i] >= 0 && static_cast<std::size_t>(path_link.data()[i]) < capacity.size() && path_share.data()[i] > 0,
             "path_link or path_share");
    std::vector<double> rates(flows);
    {
        nb::gil_scoped_release release;
        Sharing state(capacity.data(), static_cast<std::int32_t>(capacity.size()), most + 1);
        std::vector<Hop> hops;
        std::vector<Sharing::Slot> slots(flows);
        for (std::size_t f = 0; f < flows; ++f) {
            hops.clear();
            for (std::int64_t i = path_offset.data()[f]; i < path_offset.data()[f + 1]; ++i)
                hops.push_back({path_link.data()[i], path_share.data()[i]});
            slots[f] = state.attach(hops.data(), static_cast<std::uint32_t>(hops.size()), weight.data()[f], cap.data()[f],
                                    priority.data()[f], 1.0);
        }
        state.settle();
        for (std::size_t f = 0; f < flows; ++f) rates[f] = state.rate(slots[f]);
    }
    return hand_over(std::move(rates));
}

}  // namespace

void bind_flow(nb::module_& m) {
    m.def("flow_run", &flow_run, nb::arg("arrays"), nb::arg("fold"), nb::arg("audit_every"));
    m.def("spray_paths", &spray_paths, nb::arg("node_kind"), nb::arg("link_src"), nb::arg("link_dst"), nb::arg("link_up"),
          nb::arg("node_up"), nb::arg("weight"), nb::arg("src"), nb::arg("dst"), nb::arg("bundle"));
    m.def("max_min_rates", &max_min_rates, nb::arg("capacity"), nb::arg("path_offset"), nb::arg("path_link"),
          nb::arg("path_share"), nb::arg("weight"), nb::arg("cap"), nb::arg("priority"));
}
