// The ECMP hash of both engines: endpoints, entropy (source port or queue pair) and a seed per switch give 32 bits.
// One seed for all switches gives the polarisation that such fabrics show.
#pragma once
#include <cstdint>

namespace railwright {

// Finalizer of MurmurHash3 (Appleby, public domain): every input bit flips every output bit with probability near 1/2.
inline std::uint64_t mix64(std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

inline std::uint32_t ecmp_hash(std::uint32_t src, std::uint32_t dst, std::uint32_t entropy, std::uint64_t seed) {
    const std::uint64_t ends = (static_cast<std::uint64_t>(src) << 32) | dst;
    return static_cast<std::uint32_t>(mix64(mix64(ends ^ seed) + entropy * 0x9e3779b97f4a7c15ULL) >> 32);
}

// Which of `n` equal next hops a hash selects (multiply-shift: no division, no bias worth the name for n << 2^32).
inline std::uint32_t ecmp_pick(std::uint32_t hash, std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(hash) * n) >> 32);
}

// The seed of a switch: its own, or one for all when the fabric is polarised.
inline std::uint64_t switch_seed(std::uint64_t seed, std::int32_t node, bool polarised) {
    return mix64(seed + (polarised ? 1 : static_cast<std::uint64_t>(node) + 2) * 0x9e3779b97f4a7c15ULL);
}

}  // namespace railwright
