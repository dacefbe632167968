// The yardstick of bench/flow.py: SimGrid moves the same flows over the same links and paths.
//
// Reads "hosts links flows", one bandwidth (bytes/s) per link, and per flow "src dst bytes hops link…". All flows start at once.
// Model CM02 without latency, TCP corrections and cross traffic (set by the caller) is plain max-min sharing, as ours.
// Prints the simulated end in microseconds and the CPU seconds of the run itself (without building the platform).
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <ctime>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
    int src, dst;
    double bytes;
};

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    std::FILE* file = std::fopen(argv[1], "r");
    int hosts, links, flows;
    if (!file || std::fscanf(file, "%d %d %d", &hosts, &links, &flows) != 3) return 2;
    auto* zone = sg4::create_full_zone("zone");
    std::vector<sg4::Host*> host;
    for (int i = 0; i < hosts; ++i) host.push_back(zone->create_host("h" + std::to_string(i), 1e9));
    std::vector<const sg4::Link*> link;
    for (int i = 0; i < links; ++i) {
        double bandwidth;
        if (std::fscanf(file, "%lf", &bandwidth) != 1) return 2;
        link.push_back(zone->create_link("l" + std::to_string(i), bandwidth)->set_latency(0)->seal());
    }
    std::vector<Flow> all;
    std::set<std::pair<int, int>> routed;
    for (int i = 0; i < flows; ++i) {
        Flow flow;
        int hops;
        if (std::fscanf(file, "%d %d %lf %d", &flow.src, &flow.dst, &flow.bytes, &hops) != 4) return 2;
        std::vector<sg4::LinkInRoute> route;
        for (int k = 0; k < hops; ++k) {
            int number;
            if (std::fscanf(file, "%d", &number) != 1) return 2;
            route.emplace_back(link[number]);
        }
        if (routed.insert({flow.src, flow.dst}).second)
            zone->add_route(host[flow.src]->get_netpoint(), host[flow.dst]->get_netpoint(), nullptr, nullptr, route, false);
        all.push_back(flow);
    }
    std::fclose(file);
    zone->seal();
    sg4::Actor::create("sender", host[0], [&] {
        std::vector<sg4::CommPtr> moving;
        for (const Flow& flow : all) {
            moving.push_back(sg4::Comm::sendto_init(host[flow.src], host[flow.dst])->set_payload_size(flow.bytes));
            moving.back()->start();
        }
        for (const sg4::CommPtr& comm : moving) comm->wait();
    });
    const std::clock_t began = std::clock();
    engine.run();
    const double cpu = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    std::printf("%.9f %.6f\n", sg4::Engine::get_clock() * 1e6, cpu);
}
