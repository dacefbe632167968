#include "routing/bind.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>

#include "routing/routes.hpp"

namespace nb = nanobind;
using namespace railwright;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> hand_over(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size()}, owner};
}

using Int64s = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;
using Int32s = nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>;

std::tuple<Int64s, Int32s, Int64s> route_flows(In<std::uint8_t> node_kind, In<std::int32_t> link_src, In<std::int32_t> link_dst,
                                               In<std::uint8_t> link_up, In<std::uint8_t> node_up, In<std::int32_t> src,
                                               In<std::int32_t> dst, In<std::uint32_t> entropy, int mode, std::uint64_t seed,
                                               bool scale_up) {
    NetworkView view;
    view.nodes = static_cast<std::int32_t>(node_kind.size());
    view.links = static_cast<std::int32_t>(link_src.size());
    view.node_kind = node_kind.data();
    view.link_src = link_src.data();
    view.link_dst = link_dst.data();
    if (link_dst.size() != link_src.size() || link_up.size() != link_src.size() || node_up.size() != node_kind.size() ||
        dst.size() != src.size() || entropy.size() != src.size())
        throw std::invalid_argument("route_flows: arrays of unequal length");
    for (std::int32_t link = 0; link < view.links; ++link)
        if (view.link_src[link] < 0 || view.link_src[link] >= view.nodes || view.link_dst[link] < 0 ||
            view.link_dst[link] >= view.nodes)
            throw std::invalid_argument("route_flows: a link ends at a node that does not exist");
    const std::size_t n = src.size();
    for (std::size_t flow = 0; flow < n; ++flow)
        for (const std::int32_t end : {src.data()[flow], dst.data()[flow]})
            if (end < 0 || end >= view.nodes || view.node_kind[end] != HOST)
                throw std::invalid_argument("route_flows: an endpoint is not a host");
    std::vector<std::int64_t> offsets(n + 1, 0), unreachable;
    std::vector<std::int32_t> links;
    {
        nb::gil_scoped_release release;
        Routes routes(view, link_up.data(), node_up.data());
        for (std::size_t flow = 0; flow < n; ++flow) {
            if (!routes.path(src.data()[flow], dst.data()[flow], entropy.data()[flow], static_cast<PathMode>(mode), seed,
                             scale_up, links))
                unreachable.push_back(static_cast<std::int64_t>(flow));
            offsets[flow + 1] = static_cast<std::int64_t>(links.size());
        }
    }
    return {hand_over(std::move(offsets)), hand_over(std::move(links)), hand_over(std::move(unreachable))};
}

}  // namespace

void bind_routing(nb::module_& m) {
    m.def("route_flows", &route_flows, nb::arg("node_kind"), nb::arg("link_src"), nb::arg("link_dst"), nb::arg("link_up"),
          nb::arg("node_up"), nb::arg("src"), nb::arg("dst"), nb::arg("entropy"), nb::arg("mode"), nb::arg("seed"),
          nb::arg("scale_up"));
    m.def(
        "ecmp_hash",
        [](std::uint32_t src, std::uint32_t dst, std::uint32_t entropy, std::uint64_t seed) {
            return ecmp_hash(src, dst, entropy, seed);
        },
        nb::arg("src"), nb::arg("dst"), nb::arg("entropy"), nb::arg("seed"));
}
