#include "flow/sharing.hpp"

#include <algorithm>
#include <cmath>

namespace railwright::flow {

namespace {

constexpr std::uint16_t RECOUNT = 256;  // additions after which a link's load is summed up afresh

bool differs(double a, double b, double same) { return std::fabs(a - b) > same * std::max(std::fabs(a), std::fabs(b)); }

}  // namespace

Sharing::Sharing(const double* capacity, std::int32_t links, unsigned priorities)
    : links_(links), priorities_(priorities), shared_(links * static_cast<std::int32_t>(priorities)),
      base_(capacity, capacity + links) {
    link_.resize(shared_);
    held_.resize(shared_);
    is_dirty_.assign(shared_, 0);
    members_.resize(shared_);
    dirty_.resize(priorities);
    limited_bytes_.assign(links, 0);
    for (std::int32_t i = 0; i < shared_; ++i) {
        held_[i].capacity = base_[i % links_];
        held_[i].priority = static_cast<std::uint8_t>(i / links_);
        rearm(i);
    }
}

// ---- who is where ----

std::uint32_t Sharing::take_places(std::uint32_t count) {
    if (count < free_places_.size() && !free_places_[count].empty()) {
        const std::uint32_t first = free_places_[count].back();
        free_places_[count].pop_back();
        return first;
    }
    const auto first = static_cast<std::uint32_t>(places_.size());
    places_.resize(places_.size() + count);
    return first;
}

std::int32_t Sharing::own_link(double cap, unsigned priority) {
    std::int32_t link;
    if (free_links_.empty()) {
        link = static_cast<std::int32_t>(link_.size());
        link_.emplace_back();
        held_.emplace_back();
        is_dirty_.push_back(0);
        members_.emplace_back();
    } else {
        link = free_links_.back();
        free_links_.pop_back();
        const bool touched = held_[link].touched;
        link_[link] = Link{};
        held_[link] = Held{};
        held_[link].touched = touched;
    }
    held_[link].capacity = cap;
    held_[link].priority = static_cast<std::uint8_t>(priority);
    held_[link].since = now_;
    rearm(link);
    return link;
}

Sharing::Slot Sharing::attach(const Hop* hops, std::uint32_t count, double weight, double cap, unsigned priority, double bytes) {
    Slot slot;
    if (free_flows_.empty()) {
        slot = static_cast<Slot>(flows_.size());
        flows_.emplace_back();
    } else {
        slot = free_flows_.back();
        free_flows_.pop_back();
    }
    const bool capped = cap < INF;
    Flow& flow = flows_[slot];
    flow = Flow{};
    flow.weight = weight;
    flow.pending = bytes;
    flow.count = count + capped;
    longest_ = std::max(longest_, flow.count);
    flow.first = take_places(flow.count);
    flow.priority = static_cast<std::uint8_t>(priority);
    flow.live = true;
    const std::int32_t shift = static_cast<std::int32_t>(priority) * links_;
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const std::int32_t link = i < count ? hops[i].link + shift : own_link(cap, priority);
        const double unit = (i < count ? hops[i].share : 1.0) * weight;
        places_[flow.first + i] = {link, static_cast<std::uint32_t>(members_[link].size()), unit};
        members_[link].push_back(
            {flow.first, static_cast<std::uint16_t>(flow.count), static_cast<std::uint16_t>(i), slot, unit, 0});
        held_[link].all_units += unit;
        busy_links_ += members_[link].size() == 1;
    }
    ++active_;
    on_links_ += flow.count;
    started_.push_back(slot);
    return slot;
}

void Sharing::put(std::int32_t link, std::uint32_t at, const Member& member) {
    members_[link][at] = member;
    places_[member.first + member.hop].member = at;
}

void Sharing::swap_members(std::int32_t link, std::uint32_t a, std::uint32_t b) {
    if (a == b) return;
    const Member first = members_[link][a], second = members_[link][b];
    put(link, a, second);
    put(link, b, first);
}

void Sharing::detach(Slot slot) {
    Flow& flow = flows_[slot];
    const double level = flow.limit < 0 ? 0 : link_[flow.limit].level;
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const Place place = places_[flow.first + i];
        Link& link = link_[place.link];
        Held& held = held_[place.link];
        std::vector<Member>& members = members_[place.link];
        std::uint32_t at = place.member;
        if (place.link == flow.limit) {
            advance(place.link);
            held.units -= place.unit;
            swap_members(place.link, at, --held.count);
            at = held.count;
            held.first = -1;
            touch(place.link);
        } else if (flow.limit >= 0) {
            link.load -= place.unit * level;
        }
        swap_members(place.link, at, static_cast<std::uint32_t>(members.size() - 1));
        members.pop_back();
        held.all_units -= place.unit;
        if (members.empty()) {
            --busy_links_;
            link.level = INF;
            link.load = link.guard = held.units = held.all_units = 0;
            rearm(place.link);
        } else if (link.level < INF) {
            mark(place.link);
        }
        if (flow.limit >= 0) give_leftover(place.link);
        if (place.link >= shared_) free_links_.push_back(place.link);
    }
    if (flow.count >= free_places_.size()) free_places_.resize(flow.count + 1);
    free_places_[flow.count].push_back(flow.first);
    flow.live = false;
    --active_;
    on_links_ -= flow.count;
    free_flows_.push_back(slot);
}

void Sharing::again(Slot slot, double bytes) {
    Flow& flow = flows_[slot];
    advance(flow.limit);
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const Place& place = places_[flow.first + i];
        if (place.link == flow.limit)
            members_[place.link][place.member].finish = held_[place.link].served + bytes / flow.weight;
    }
    held_[flow.limit].first = -1;
    touch(flow.limit);
}

void Sharing::set_capacity(std::int32_t link, double capacity) {
    base_[link] = capacity;
    held_[link].capacity = capacity;
    rearm(link);
    if (!members_[link].empty()) mark(link);
    give_leftover(link);
}

// ---- time ----

void Sharing::advance(std::int32_t link) {
    Held& held = held_[link];
    if (link_[link].level < INF && held.since < now_) {
        const double served = link_[link].level * (now_ - held.since);
        held.served += served;
        (link < shared_ ? limited_bytes_[base_of(link)] : capped_bytes_) += held.units * served;
    }
    held.since = now_;
}

void Sharing::touch(std::int32_t link) {
    if (held_[link].touched) return;
    held_[link].touched = true;
    touched_.push_back(link);
}

double Sharing::rate(Slot slot) const {
    const Flow& flow = flows_[slot];
    return flow.limit < 0 ? 0 : flow.weight * link_[flow.limit].level;
}

double Sharing::remaining(Slot slot) const {
    const Flow& flow = flows_[slot];
    if (flow.limit < 0) return flow.pending;
    const Held& held = held_[flow.limit];
    const double served = held.served + link_[flow.limit].level * (now_ - held.since);
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const Place& place = places_[flow.first + i];
        if (place.link == flow.limit)
            return std::max(0.0, (members_[place.link][place.member].finish - served) * flow.weight);
    }
    return 0;
}

void Sharing::finished(double until, std::vector<Slot>& ended) {
    while (finish_.time() <= until) {
        const auto link = static_cast<std::int32_t>(finish_.top());
        finish_.set(finish_.top(), INF);
        advance(link);
        const std::vector<Member>& members = members_[link];
        const double edge = held_[link].served + link_[link].level * std::max(0.0, until - now_);
        std::uint32_t first = 0;
        bool any = false;
        for (std::uint32_t i = 0; i < held_[link].count; ++i) {
            if (members[i].finish < members[first].finish) first = i;
            if (members[i].finish > edge) continue;
            ended.push_back(members[i].slot);
            any = true;
        }
        if (!any) ended.push_back(members[first].slot);  // due by the clock, a rounding error ahead of the count
        touch(link);
    }
}

void Sharing::schedule() {
    for (const std::int32_t link : touched_) {
        Held& held = held_[link];
        held.touched = false;
        const double level = link_[link].level;
        const auto key = static_cast<std::uint32_t>(link);
        if (!held.count || !(level > 0)) {
            finish_.set(key, INF);
            continue;
        }
        if (held.first < 0) {
            const Member* members = members_[link].data();
            held.first = members[0].finish;
            for (std::uint32_t i = 1; i < held.count; ++i) held.first = std::min(held.first, members[i].finish);
        }
        finish_.set(key, std::max(now_, held.since + (held.first - held.served) / level));
    }
    touched_.clear();
}

const std::vector<double>& Sharing::limited_bytes() {
    for (std::int32_t link = 0; link < static_cast<std::int32_t>(link_.size()); ++link) advance(link);
    return limited_bytes_;
}

void Sharing::remember() {
    limited_then_ = limited_bytes();
    capped_then_ = capped_bytes_;
}

void Sharing::skip(double cycles, double duration) {
    limited_bytes();
    for (std::size_t link = 0; link < limited_bytes_.size(); ++link)
        limited_bytes_[link] += cycles * (limited_bytes_[link] - limited_then_[link]);
    capped_bytes_ += cycles * (capped_bytes_ - capped_then_);
    now_ += duration;
    for (Held& held : held_) held.since = now_;
    finish_.shift(duration);
}

// ---- levels ----

// A change of class p's load on a link changes what the classes after p find there.
void Sharing::give_leftover(std::int32_t link) {
    if (priorities_ == 1 || link >= shared_) return;
    const std::int32_t base = base_of(link);
    double left = base_[base];
    for (unsigned p = 0; p < priorities_; ++p) {
        const std::int32_t own = base + static_cast<std::int32_t>(p) * links_;
        const double free = std::max(0.0, left);
        if (own > link && differs(free, held_[own].capacity, SAME)) {
            held_[own].capacity = free;
            rearm(own);
            if (!members_[own].empty()) mark(own);
        }
        left -= load_of(own);
    }
}

void Sharing::mark(std::int32_t link) {
    if (is_dirty_[link]) return;
    is_dirty_[link] = 1;
    link_[link].trigger = INF;
    queue(link);
}

void Sharing::queue(std::int32_t link) {
    const double key = link_[link].level < INF ? link_[link].level : held_[link].capacity / held_[link].all_units;
    dirty_[held_[link].priority].push(link, key);
}

// The load of flows held elsewhere has changed.
void Sharing::mark_if_disturbed(std::int32_t link) {
    if (link_[link].load > link_[link].trigger) mark(link);
    give_leftover(link);
}

std::int32_t Sharing::lowest(const Flow& flow) const {
    double level = INF;
    std::int32_t limit = -1;
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const std::int32_t link = places_[flow.first + i].link;
        if (link_[link].level < level) {
            level = link_[link].level;
            limit = link;
        }
    }
    return limit;
}

// Let link `to` hold the flow back from now on.
void Sharing::assign(Slot slot, std::int32_t to) {
    Flow& flow = flows_[slot];
    const std::int32_t from = flow.limit;
    const double old_level = from < 0 ? 0 : link_[from].level, new_level = link_[to].level;
    const double per_weight = (from < 0 ? flow.pending : remaining(slot)) / flow.weight;
    flow.limit = to;
    work_.visits += flow.count;
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const Place place = places_[flow.first + i];
        Link& link = link_[place.link];
        if (place.link == from) {
            advance(from);
            held_[from].units -= place.unit;
            swap_members(from, place.member, --held_[from].count);
            held_[from].first = -1;
            touch(from);
        } else if (from >= 0) {
            link.load -= place.unit * old_level;
        }
        if (place.link == to) {
            advance(to);
            held_[to].units += place.unit;
            const std::uint32_t at = places_[flow.first + i].member;
            members_[to][at].finish = held_[to].served + per_weight;
            swap_members(to, at, held_[to].count++);
            held_[to].first = -1;
            touch(to);
        } else {
            link.load += place.unit * new_level;
            link.guard = std::max(link.guard, new_level);
        }
        mark_if_disturbed(place.link);
    }
}

// Set the level of a link for the flows that it holds back. Returns whether another link should now hold one of them.
bool Sharing::move_level(std::int32_t link, double level) {
    advance(link);
    touch(link);
    const std::uint32_t count = held_[link].count;
    work_.visits += count;
    if (disturbed_.size() < static_cast<std::size_t>(count) * longest_) disturbed_.resize(2 * static_cast<std::size_t>(count) * longest_);
    const bool conflict = level > link_[link].level ? pass_on<true>(link, level) : pass_on<false>(link, level);
    if (priorities_ > 1)
        for (const Member *member = members_[link].data(), *end = member + count; member != end; ++member)
            for (std::uint32_t hop = 0; hop < member->count; ++hop) give_leftover(places_[member->first + hop].link);
    return conflict;
}

// Tell a link's new level to the other links of the flows that it holds back. The inner loop has no branch that the processor
// would guess wrong: it treats the link like its neighbours and mends that after. Only a rise can overfill a link with room,
// lift what a guard bounds, or let another link be lower.
template <bool RISES>
bool Sharing::pass_on(std::int32_t link, double level) {
    const std::uint32_t count = held_[link].count;
    const Member* members = members_[link].data();
    const double delta = level - link_[link].level, close = level * (1 - SAME);
    link_[link].level = level;
    static constexpr double queued[2] = {-INF, INF};  // a table, lest the compiler make it a branch
    Link* const links = link_.data();
    std::int32_t* const list = disturbed_.data();
    const Place* const places = places_.data();
    bool conflict = false;
    std::size_t found = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t others = members[i].count - 1, own = members[i].hop;
        const Place* const place = places + members[i].first;
        for (std::uint32_t k = 0; k < others; ++k) {
            const Place& there = place[k + (k >= own)];
            const std::int32_t number = there.link;
            Link& other = links[number];
            const double load = other.load + there.unit * delta, trigger = other.trigger;
            if (RISES) {
                other.guard = std::max(other.guard, level);
                conflict |= other.level < close;
            }
            const bool fresh = load > trigger;
            other.load = load;
            other.trigger = std::max(trigger, queued[fresh]);
            list[found] = number;
            found += fresh;
        }
    }
    for (std::size_t i = 0; i < found; ++i) {
        is_dirty_[disturbed_[i]] = 1;
        queue(disturbed_[i]);
    }
    return conflict;
}

// A flow that has just come: held back by the lowest link of its path; where all have room, by the one that will most likely
// fill up, and the others join when the new load overfills them.
void Sharing::begin(Slot slot) {
    const Flow& flow = flows_[slot];
    if (!flow.live || flow.limit >= 0) return;
    const std::int32_t known = lowest(flow);
    if (known >= 0) {
        assign(slot, known);
        mark(known);
        return;
    }
    std::int32_t best = -1;
    double best_level = INF;
    for (std::uint32_t i = 0; i < flow.count; ++i) {
        const Place& place = places_[flow.first + i];
        const double capacity = held_[place.link].capacity;
        const double level = std::max((capacity - link_[place.link].load) / place.unit, capacity / held_[place.link].all_units);
        if (level < best_level) {
            best_level = level;
            best = place.link;
        }
    }
    solve(best);
}

void Sharing::recount(std::int32_t link) {
    Link& it = link_[link];
    Held& held = held_[link];
    const std::vector<Member>& members = members_[link];
    work_.visits += members.size();
    held.drift = 0;
    it.load = it.guard = held.units = held.all_units = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
        held.all_units += members[i].unit;
        if (i < held.count) {
            held.units += members[i].unit;
        } else if (const std::int32_t limit = flows_[members[i].slot].limit; limit >= 0) {
            it.load += members[i].unit * link_[limit].level;
            it.guard = std::max(it.guard, link_[limit].level);
        }
    }
}

void Sharing::update(std::int32_t link) {
    Link& it = link_[link];
    Held& held = held_[link];
    ++work_.updates;
    if (++held.drift >= RECOUNT) recount(link);
    if (!held.count) {
        if (members_[link].empty()) return;
        if (it.load > held.capacity * (1 + SAME)) return solve(link);
        it.level = INF;
        return give_leftover(link);
    }
    double level = std::max(0.0, held.capacity - it.load) / held.units;
    if (level < it.guard * (1 - SAME)) {
        recount(link);
        level = std::max(0.0, held.capacity - it.load) / held.units;
        if (level < it.guard * (1 - SAME)) return solve(link);
    }
    if (!differs(level, it.level, SAME)) return;
    if (move_level(link, level)) return solve(link);
    give_leftover(link);
}

// The level at which `count` flows fill `capacity`: load(level) = sum of unit * min(level, other) is concave and piecewise
// linear, so that Newton's steps, after the first, rise to the root without overshooting, in finitely many steps.
double Sharing::level_that_fills(double capacity, double units, double guess, std::size_t count) const {
    double level = guess < INF ? guess : capacity / units;
    double before = INF;
    for (bool fresh = guess < INF;; fresh = false) {
        double taken = 0, open = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const bool held = other_[i] <= level;
            taken += held ? unit_[i] * other_[i] : 0.0;
            open += held ? 0.0 : unit_[i];
        }
        if (fresh && open <= 0) return level_that_fills(capacity, units, INF, count);
        if (!(open < before) || open <= 0) return level;
        before = fresh ? INF : open;
        const double next = std::max(0.0, capacity - taken) / open;
        if (next == level) return level;
        level = next;
    }
}

// Divide the flows of a link anew between those that it holds back and those that others do.
void Sharing::solve(std::int32_t link) {
    const std::size_t count = members_[link].size();
    ++work_.solves;
    work_.visits += count;
    if (other_.size() < count) {
        other_.resize(2 * count);
        unit_.resize(2 * count);
    }
    const double old_level = link_[link].level;
    link_[link].level = INF;
    double total = 0, units = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Member& member = members_[link][i];
        double other = INF;
        const Place* place = places_.data() + member.first;
        for (const Place* end = place + member.count; place != end; ++place) other = std::min(other, link_[place->link].level);
        other_[i] = other;
        unit_[i] = member.unit;
        total += member.unit * other;
        units += member.unit;
    }
    const double capacity = held_[link].capacity;
    const double level = total > capacity * (1 + SAME) ? level_that_fills(capacity, units, old_level, count) : INF;
    to_here_.clear();
    away_.clear();
    const std::uint32_t held = held_[link].count;
    for (std::uint32_t i = 0; i < count; ++i) {
        const Slot slot = members_[link][i].slot;
        if (i < held) {
            if (other_[i] < level * (1 - SAME) || level == INF) away_.push_back(slot);
        } else if (level < INF && (level < other_[i] * (1 - SAME) || flows_[slot].limit < 0) && level <= other_[i]) {
            to_here_.push_back(slot);
        }
    }
    link_[link].level = old_level;
    if (level < INF) {
        if (held) {
            if (level != old_level) move_level(link, level);
        } else {
            advance(link);
            link_[link].level = level;
        }
    }
    for (const Slot slot : away_) {
        link_[link].level = INF;  // so that the lowest of the others is found
        const std::int32_t to = lowest(flows_[slot]);
        link_[link].level = level < INF ? level : old_level;
        assign(slot, to);
    }
    for (const Slot slot : to_here_) assign(slot, link);
    if (level == INF) {
        advance(link);
        link_[link].level = INF;
        touch(link);
    }
    rearm(link);
    recount(link);
    give_leftover(link);
}

void Sharing::relax() {
    const std::uint64_t limit = work_.visits + 8 * on_links_ + 256;
    for (unsigned p = 0; p < priorities_; ++p) {
        RepairQueue& queue = dirty_[p];
        while (!queue.empty()) {
            const std::int32_t link = queue.pop();
            is_dirty_[link] = 0;
            update(link);
            rearm(link);
            if (work_.visits > limit) return fill_all();
        }
    }
}

void Sharing::settle() {
    // Many newcomers on crowded links: one full computation is cheaper than many repairs.
    if (started_.size() > 16 && 4 * started_.size() > active_ && on_links_ > 3 * static_cast<std::uint64_t>(busy_links_)) {
        fill_all();
    } else {
        for (const Slot slot : started_) begin(slot);
        relax();
    }
    started_.clear();
    schedule();
}

}  // namespace railwright::flow
