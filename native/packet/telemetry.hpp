// In-band telemetry of one packet: what each switch on its path saw when it sent the packet on.
#pragma once
#include <cstdint>
#include <vector>

#include "packet/wheel.hpp"

namespace railwright::packet {

struct HopRecord {
    Ps time;
    double sent_bytes;   // of the port, before this packet
    double queue_bytes;  // left behind it
    double rate_bps;
};

struct Telemetry {
    static constexpr int MAX_HOPS = 8;
    HopRecord hop[MAX_HOPS];
    std::uint32_t hops = 0;
    std::uint32_t next_free = 0;
};

class TelemetryPool {
  public:
    std::uint32_t take() {
        if (free_ == UINT32_MAX) {
            records_.emplace_back();
            return static_cast<std::uint32_t>(records_.size() - 1);
        }
        const std::uint32_t record = free_;
        free_ = records_[record].next_free;
        records_[record].hops = 0;
        return record;
    }
    void give(std::uint32_t record) {
        records_[record].next_free = free_;
        free_ = record;
    }
    Telemetry& operator[](std::uint32_t record) { return records_[record]; }

  private:
    std::vector<Telemetry> records_;
    std::uint32_t free_ = UINT32_MAX;
};

}  // namespace railwright::packet
