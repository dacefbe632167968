#include "flow/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flow/private_rings.hpp"
#include "flow/sharing.hpp"

namespace railwright::flow {

namespace {

constexpr double NEVER = std::numeric_limits<double>::quiet_NaN();
constexpr double SAME_TIME_US = 1e-7;     // events closer than 0.1 ps (plus one part in 10^12) are one instant
constexpr double RECURS = 1e-9;           // how closely a state must recur, as a part of a repetition
constexpr std::uint32_t WORTH_SKIPPING = 32;
constexpr std::uint32_t NOBODY = 0xffffffff;

struct Timed {
    enum Kind : std::uint8_t { ARRIVE, DONE, END, OPEN, HANDOVER, LINK, REROUTE };
    double time;
    Kind kind;
    std::uint32_t id;
    bool relative() const { return kind == ARRIVE || kind == DONE; }
    // For a heap with the earliest on top.
    bool operator<(const Timed& other) const {
        if (time != other.time) return time > other.time;
        if (kind != other.kind) return kind > other.kind;
        return id > other.id;
    }
};

// A member of a private ring was done before another could start, so that the ring's course was not known in time.
struct RingEndsBeforeItStarts {};

struct Snapshot {
    bool taken = false;
    double now = 0;
    std::uint64_t live_version = 0;
    std::uint32_t leader_sent = 0;
    std::vector<std::uint32_t> sent, arrived, blocked;
    std::vector<double> remaining;
    std::vector<Timed> timed;
};

class Run {
  public:
    Run(const Problem& problem, std::uint64_t audit_every, const std::function<void()>& poll, PrivateRings* rings)
        : in_(problem), audit_every_(audit_every), poll_(poll), rings_(rings), sharing_(problem.capacity.data(), static_cast<std::int32_t>(problem.links()), priorities()) {
        const std::size_t ops = in_.ops();
        out_.start.assign(ops, NEVER);
        out_.finish.assign(ops, NEVER);
        out_.link_bytes.assign(in_.links(), 0);
        ring_limited_bytes_.assign(in_.links(), 0);
        sent_.assign(ops, 0);
        arrived_.assign(ops, 0);
        blocked_.assign(ops, 0);
        running_.assign(ops, 0);
        pending_.assign(ops, 0);
        arrival_.assign(ops, 0);
        live_place_.assign(ops, NOBODY);
        flow_slot_.assign(in_.flows(), NOBODY);
        flow_path_ = in_.flow_path;
        flow_latency_ = in_.flow_latency;
        done_bytes_.assign(in_.flows(), 0);
        ended_.assign(in_.flows(), 0);
        stalled_bytes_.assign(in_.flows(), 0);
        op_of_flow_.resize(in_.flows());
        for (std::size_t op = 0; op < ops; ++op)
            for (std::int64_t f = in_.flow_offset[op]; f < in_.flow_offset[op + 1]; ++f)
                op_of_flow_[f] = static_cast<std::uint32_t>(op);
        group_followers();
    }

    Outcome go() {
        for (std::size_t op = 0; op < in_.ops(); ++op) prepare(static_cast<std::uint32_t>(op));
        for (std::size_t i = 0; i < in_.link_change_time.size(); ++i)
            appoint(in_.link_change_time[i], Timed::LINK, static_cast<std::uint32_t>(i));
        for (std::size_t i = 0; i < in_.reroute_time.size(); ++i)
            appoint(in_.reroute_time[i], Timed::REROUTE, static_cast<std::uint32_t>(i));
        drain();
        commit();
        while (advance()) {
        }
        for (std::uint32_t flow = 0; flow < in_.flows(); ++flow) {
            if (const std::uint32_t slot = flow_slot_[flow]; slot != NOBODY)
                done_bytes_[flow] += slot_bytes_[slot] - sharing_.remaining(slot);
            flush(flow);
        }
        out_.link_limited_bytes = sharing_.limited_bytes();
        for (std::size_t link = 0; link < in_.links(); ++link) out_.link_limited_bytes[link] += ring_limited_bytes_[link];
        out_.capped_bytes += sharing_.capped_bytes();
        out_.work = sharing_.work();
        return std::move(out_);
    }

  private:
    unsigned priorities() const {
        unsigned most = 0;
        for (const std::uint8_t p : in_.op_priority) most = std::max<unsigned>(most, p);
        return most + 1;
    }

    void group_followers() {
        follower_offset_.assign(in_.ops() + 1, 0);
        for (const std::uint32_t on : in_.wait_op) ++follower_offset_[on + 1];
        for (std::size_t op = 0; op < in_.ops(); ++op) follower_offset_[op + 1] += follower_offset_[op];
        follower_.resize(in_.wait_op.size());
        std::vector<std::int64_t> fill(follower_offset_.begin(), follower_offset_.end() - 1);
        for (std::size_t op = 0; op < in_.ops(); ++op)
            for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
                follower_[fill[in_.wait_op[w]]++] = {static_cast<std::uint32_t>(op), in_.wait_lag[w]};
        waited_for_.assign(in_.ops(), 0);
        for (std::size_t w = 0; w < in_.wait_op.size(); ++w)
            if (in_.wait_lag[w] == LEFT) waited_for_[in_.wait_op[w]] = 1;
    }

    void prepare(std::uint32_t op) {
        for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
            if (in_.wait_lag[w] != 1) ++blocked_[op];
        if (in_.op_start[op] > 0) {
            ++blocked_[op];
            appoint(in_.op_start[op], Timed::OPEN, op);
        }
        if (!blocked_[op]) ready_.push_back(op);
    }

    void appoint(double time, Timed::Kind kind, std::uint32_t id) {
        timed_.push_back({time, kind, id});
        std::push_heap(timed_.begin(), timed_.end());
    }

    double edge() const { return now_ + SAME_TIME_US + 1e-12 * now_; }

    bool advance() {
        const double next = std::min(sharing_.next_finish(), timed_.empty() ? INF : timed_.front().time);
        if (!(next < INF)) return false;
        now_ = std::max(now_, next);
        sharing_.set_time(now_);
        const double edge = this->edge();
        for (;;) {
            if (sharing_.next_finish() <= edge) {
                ended_slots_.clear();
                sharing_.finished(edge, ended_slots_);
                for (const std::uint32_t slot : ended_slots_) complete(slot);
            } else if (!timed_.empty() && timed_.front().time <= edge) {
                std::pop_heap(timed_.begin(), timed_.end());
                const Timed due = timed_.back();
                timed_.pop_back();
                fire(due);
            } else {
                break;
            }
            drain();
        }
        commit();
        if (leader_moved_) {
            leader_moved_ = false;
            look_for_cycle();
        }
        ++out_.instants;
        if (audit_every_ && out_.instants % audit_every_ == 0) out_.audit = std::max(out_.audit, sharing_.audit());
        if (out_.instants % 64 == 0) poll_();
        return true;
    }

    void fire(const Timed& due) {
        switch (due.kind) {
            case Timed::ARRIVE: arrive(due.id); break;
            case Timed::DONE: left(due.id); break;
            case Timed::END: end(due.id); break;
            case Timed::OPEN: release(due.id); break;
            case Timed::HANDOVER: hand_over(due.id); break;
            case Timed::LINK: sharing_.set_capacity(in_.link_change_link[due.id], in_.link_change_capacity[due.id]); break;
            case Timed::REROUTE: reroute(due.id); break;
        }
    }

    void release(std::uint32_t op) {
        if (--blocked_[op] == 0 && sent_[op] < in_.op_repeat[op]) ready_.push_back(op);
    }

    void drain() {
        while (!ready_.empty()) {
            const std::uint32_t op = ready_.back();
            ready_.pop_back();
            begin(op);
        }
    }

    void begin(std::uint32_t op) {
        if (rings_ && rings_->group_of(op) >= 0) {
            out_.start[op] = now_;
            if (rings_->ready(op, now_)) run_ring(rings_->group_of(op));
            return;
        }
        if (live_place_[op] == NOBODY) {
            out_.start[op] = now_;
            live_place_[op] = static_cast<std::uint32_t>(live_.size());
            live_.push_back(op);
            ++live_version_;
        }
        if (leader_ == NOBODY && in_.op_repeat[op] - sent_[op] >= WORTH_SKIPPING) {
            leader_ = op;
            restart_search();
        }
        running_[op] = 1;
        ++blocked_[op];
        arrival_[op] = now_;
        if (in_.op_kind[op] == TIMED) {
            arrival_[op] = now_ + in_.op_duration[op];
            if (arrival_[op] > edge()) {
                appoint(arrival_[op], Timed::DONE, op);
            } else {
                left(op);
            }
            return;
        }
        const auto first = static_cast<std::uint32_t>(in_.flow_offset[op]);
        const auto end = static_cast<std::uint32_t>(in_.flow_offset[op + 1]);
        pending_[op] = end - first;
        for (std::uint32_t flow = first; flow < end; ++flow) open(flow);
        if (!pending_[op]) left(op);
    }

    // All operations of a private ring may start: their ends follow.
    void run_ring(std::int32_t group) {
        const std::vector<std::uint32_t>& members = rings_->members(group);
        const std::vector<double> finish = rings_->finish(group, poll_);
        for (std::size_t i = 0; i < members.size(); ++i) {
            const std::uint32_t op = members[i];
            if (finish[i] < now_) throw RingEndsBeforeItStarts{};
            arrival_[op] = finish[i];
            appoint(finish[i], Timed::END, op);
            const auto flow = static_cast<std::size_t>(in_.flow_offset[op]);
            const double bytes = in_.op_repeat[op] * in_.flow_bytes[flow];
            done_bytes_[flow] += bytes;
            const auto [link, share] = rings_->bound(op);
            if (link >= 0) {
                ring_limited_bytes_[link] += share * bytes;
            } else {
                out_.capped_bytes += bytes;
            }
        }
    }

    void end(std::uint32_t op) {
        const std::uint32_t repeat = in_.op_repeat[op];
        out_.repetitions += repeat;
        out_.skipped += repeat;
        sent_[op] = arrived_[op] = repeat;
        out_.finish[op] = arrival_[op];
        for (std::int64_t i = follower_offset_[op]; i < follower_offset_[op + 1]; ++i)
            if (follower_[i].lag < 0) release(follower_[i].op);
    }

    void open(std::uint32_t flow) {
        const std::uint32_t op = op_of_flow_[flow];
        const std::int32_t path = flow_path_[flow];
        if (path < 0) return;
        const bool local = in_.path_offset[path] == in_.path_offset[path + 1] && !(in_.op_cap[op] < INF);
        if (in_.flow_bytes[flow] <= 0 || local) {
            arrival_[op] = std::max(arrival_[op], now_ + flow_latency_[flow]);
            --pending_[op];
            return;
        }
        if (const std::uint32_t slot = flow_slot_[flow]; slot != NOBODY) {
            // The repetition before ended in this very instant: go on in its place.
            ended_[flow] = 0;
            slot_bytes_[slot] = in_.flow_bytes[flow];
            sharing_.again(slot, in_.flow_bytes[flow]);
            return;
        }
        attach(flow, in_.flow_bytes[flow]);
    }

    void attach(std::uint32_t flow, double bytes) {
        const std::uint32_t op = op_of_flow_[flow];
        const std::int32_t path = flow_path_[flow];
        hops_.clear();
        for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i)
            hops_.push_back({in_.path_link[i], in_.path_share[i]});
        const std::uint32_t slot = sharing_.attach(hops_.data(), static_cast<std::uint32_t>(hops_.size()), in_.op_weight[op],
                                                   in_.op_cap[op], in_.op_priority[op], bytes);
        if (slot >= slot_flow_.size()) {
            slot_flow_.resize(slot + 1);
            slot_bytes_.resize(slot + 1);
        }
        slot_flow_[slot] = flow;
        slot_bytes_[slot] = bytes;
        flow_slot_[flow] = slot;
    }

    void complete(std::uint32_t slot) {
        const std::uint32_t flow = slot_flow_[slot], op = op_of_flow_[flow];
        done_bytes_[flow] += slot_bytes_[slot];
        ended_[flow] = 1;
        lingering_.push_back(flow);
        arrival_[op] = std::max(arrival_[op], now_ + flow_latency_[flow]);
        if (--pending_[op] == 0) left(op);
    }

    // The repetition's last byte has left the sender: the next one may follow, and it will arrive in a while.
    void left(std::uint32_t op) {
        running_[op] = 0;
        const std::uint32_t next = ++sent_[op];
        if (op == leader_) leader_moved_ = true;
        if (next < in_.op_repeat[op])
            for (std::int64_t w = in_.wait_offset[op]; w < in_.wait_offset[op + 1]; ++w)
                if (in_.wait_lag[w] >= 0 && arrived_[in_.wait_op[w]] + in_.wait_lag[w] < next + 1) ++blocked_[op];
        if (next == in_.op_repeat[op] && waited_for_[op]) {
            if (in_.op_handover[op] > 0) {
                appoint(now_ + in_.op_handover[op], Timed::HANDOVER, op);
            } else {
                hand_over(op);
            }
        }
        const bool later = arrival_[op] > edge();
        if (later) appoint(arrival_[op], Timed::ARRIVE, op);
        release(op);
        if (!later) arrive(op);
    }

    void hand_over(std::uint32_t op) {
        for (std::int64_t i = follower_offset_[op]; i < follower_offset_[op + 1]; ++i)
            if (follower_[i].lag == LEFT) release(follower_[i].op);
    }

    void arrive(std::uint32_t op) {
        ++out_.repetitions;
        const std::uint32_t count = ++arrived_[op];
        const bool whole = count == in_.op_repeat[op];
        if (whole) {
            out_.finish[op] = arrival_[op];
            const std::uint32_t place = live_place_[op];
            live_[place] = live_.back();
            live_place_[live_[place]] = place;
            live_.pop_back();
            ++live_version_;
            if (op == leader_) leader_ = NOBODY;
        }
        for (std::int64_t i = follower_offset_[op]; i < follower_offset_[op + 1]; ++i) {
            const Follower follower = follower_[i];
            const std::uint32_t next = sent_[follower.op];
            if (follower.lag == LEFT) continue;
            const bool met = follower.lag == WHOLE ? whole
                                                   : !running_[follower.op] && next < in_.op_repeat[follower.op] &&
                                                         count + follower.lag == next + 1;
            if (met) release(follower.op);
        }
    }

    void reroute(std::uint32_t index) {
        const std::uint32_t flow = in_.reroute_flow[index], op = op_of_flow_[flow];
        double left_over = 0;
        if (const std::uint32_t slot = flow_slot_[flow]; slot != NOBODY) {
            if (!ended_[flow]) left_over = sharing_.remaining(slot);
            done_bytes_[flow] += ended_[flow] ? 0 : slot_bytes_[slot] - left_over;
            sharing_.detach(slot);
            flow_slot_[flow] = NOBODY;
        } else if (running_[op] && flow_path_[flow] < 0) {
            left_over = stalled_bytes_[flow] > 0 ? stalled_bytes_[flow] : in_.flow_bytes[flow];
        }
        flush(flow);
        flow_path_[flow] = in_.reroute_path[index];
        flow_latency_[flow] = in_.reroute_latency[index];
        stalled_bytes_[flow] = 0;
        if (left_over <= 0) return;
        if (flow_path_[flow] >= 0) {
            attach(flow, left_over);
        } else {
            stalled_bytes_[flow] = left_over;
        }
    }

    // Write the bytes that a flow moved on its present path to the links.
    void flush(std::uint32_t flow) {
        const std::int32_t path = flow_path_[flow];
        if (path >= 0)
            for (std::int64_t i = in_.path_offset[path]; i < in_.path_offset[path + 1]; ++i)
                out_.link_bytes[in_.path_link[i]] += in_.path_share[i] * done_bytes_[flow];
        done_bytes_[flow] = 0;
    }

    void commit() {
        for (const std::uint32_t flow : lingering_) {
            const std::uint32_t slot = flow_slot_[flow];
            if (slot == NOBODY || !ended_[flow]) continue;
            sharing_.detach(slot);
            flow_slot_[flow] = NOBODY;
        }
        lingering_.clear();
        sharing_.settle();
    }

    // ---- steady repetition: Brent's cycle search on the state at each repetition of one leading operation ----

    void restart_search() {
        snapshot_.taken = false;
        checks_ = 0;
        span_ = 1;
    }

    std::vector<Timed> under_way() const {
        std::vector<Timed> list;
        for (const Timed& timed : timed_)
            if (timed.relative()) list.push_back({timed.time - now_, timed.kind, timed.id});
        std::sort(list.begin(), list.end(), [](const Timed& a, const Timed& b) {
            if (a.id != b.id) return a.id < b.id;
            return a.time != b.time ? a.time < b.time : a.kind < b.kind;
        });
        return list;
    }

    void take_snapshot() {
        Snapshot& s = snapshot_;
        s.taken = true;
        s.now = now_;
        s.live_version = live_version_;
        s.leader_sent = sent_[leader_];
        s.sent.clear();
        s.arrived.clear();
        s.blocked.clear();
        s.remaining.clear();
        for (const std::uint32_t op : live_) {
            s.sent.push_back(sent_[op]);
            s.arrived.push_back(arrived_[op]);
            s.blocked.push_back(blocked_[op]);
            for (std::int64_t f = in_.flow_offset[op]; f < in_.flow_offset[op + 1]; ++f) {
                s.remaining.push_back(flow_slot_[f] == NOBODY ? -1 : sharing_.remaining(flow_slot_[f]));
            }
        }
        s.timed = under_way();
        sharing_.remember();
    }

    // Whether the state is that of the snapshot with every repetition number moved on alike.
    bool recurs() const {
        const Snapshot& s = snapshot_;
        if (!s.taken || s.live_version != live_version_) return false;
        const std::uint32_t moved = sent_[leader_] - s.leader_sent;
        std::size_t next = 0;
        for (std::size_t i = 0; i < live_.size(); ++i) {
            const std::uint32_t op = live_[i];
            if (sent_[op] - s.sent[i] != moved || arrived_[op] - s.arrived[i] != moved || blocked_[op] != s.blocked[i])
                return false;
            for (std::int64_t f = in_.flow_offset[op]; f < in_.flow_offset[op + 1]; ++f) {
                const double before = s.remaining[next++];
                const std::uint32_t slot = flow_slot_[f];
                if (slot == NOBODY) {
                    if (before >= 0) return false;
                    continue;
                }
                if (before < 0 || std::fabs(sharing_.remaining(slot) - before) > RECURS * in_.flow_bytes[f]) return false;
            }
        }
        const std::vector<Timed> timed = under_way();
        if (timed.size() != s.timed.size()) return false;
        const double close = RECURS * (now_ - s.now);
        for (std::size_t i = 0; i < timed.size(); ++i)
            if (timed[i].id != s.timed[i].id || timed[i].kind != s.timed[i].kind ||
                std::fabs(timed[i].time - s.timed[i].time) > close)
                return false;
        return true;
    }

    void look_for_cycle() {
        if (leader_ == NOBODY) return;
        if (recurs()) {
            skip();
            restart_search();
            return;
        }
        if (++checks_ >= span_) {
            take_snapshot();
            checks_ = 0;
            span_ *= 2;
        }
    }

    void skip() {
        const Snapshot& s = snapshot_;
        const double period = now_ - s.now;
        const std::uint32_t moved = sent_[leader_] - s.leader_sent;
        if (!(period > 0) || !moved) return;
        double cycles = INF;
        for (const std::uint32_t op : live_)
            cycles = std::min(cycles, std::floor((in_.op_repeat[op] - 1.0 - sent_[op]) / moved));
        for (const Timed& timed : timed_)
            if (!timed.relative()) cycles = std::min(cycles, std::floor((timed.time - now_) / period) - 1);
        if (!(cycles >= 1)) return;
        const double jump = cycles * period;
        const auto more = static_cast<std::uint32_t>(cycles) * moved;
        sharing_.skip(cycles, jump);
        now_ += jump;
        for (const std::uint32_t op : live_) {
            sent_[op] += more;
            arrived_[op] += more;
            arrival_[op] += jump;
            for (std::int64_t f = in_.flow_offset[op]; f < in_.flow_offset[op + 1]; ++f) {
                done_bytes_[f] += more * in_.flow_bytes[f];
            }
        }
        for (Timed& timed : timed_)
            if (timed.relative()) timed.time += jump;
        std::make_heap(timed_.begin(), timed_.end());
        out_.skipped += static_cast<std::uint64_t>(more) * live_.size();
        out_.repetitions += static_cast<std::uint64_t>(more) * live_.size();
    }

    struct Follower {
        std::uint32_t op;
        std::int8_t lag;
    };

    const Problem& in_;
    const std::uint64_t audit_every_;
    const std::function<void()>& poll_;
    PrivateRings* const rings_;
    std::vector<double> ring_limited_bytes_;
    Sharing sharing_;
    Outcome out_;
    double now_ = 0;

    std::vector<std::uint32_t> sent_, arrived_, blocked_, pending_;  // per operation
    std::vector<std::uint8_t> running_;
    std::vector<double> arrival_;
    std::vector<std::int64_t> follower_offset_;
    std::vector<Follower> follower_;
    std::vector<std::uint8_t> waited_for_;  // by a LEFT
    std::vector<std::uint32_t> live_, live_place_;  // started and not finished
    std::uint64_t live_version_ = 0;

    std::vector<std::uint32_t> op_of_flow_, flow_slot_;  // per flow
    std::vector<std::int32_t> flow_path_;
    std::vector<double> flow_latency_, done_bytes_;

    std::vector<std::uint8_t> ended_;                    // per flow: moved all its bytes in this instant
    std::vector<double> stalled_bytes_;                  // per flow: left to move when it lost its path

    std::vector<std::uint32_t> slot_flow_, ended_slots_;  // per slot of `sharing_`
    std::vector<double> slot_bytes_;
    std::vector<Timed> timed_;
    std::vector<std::uint32_t> ready_, lingering_;
    std::vector<Hop> hops_;

    std::uint32_t leader_ = NOBODY;
    bool leader_moved_ = false;
    Snapshot snapshot_;
    std::uint64_t checks_ = 0, span_ = 1;
};

}  // namespace

Outcome run(const Problem& problem, std::uint64_t audit_every, const std::function<void()>& poll) {
    try {
        PrivateRings rings(problem);
        return Run(problem, audit_every, poll, &rings).go();
    } catch (const RingEndsBeforeItStarts&) {
        return Run(problem, audit_every, poll, nullptr).go();
    }
}

}  // namespace railwright::flow
