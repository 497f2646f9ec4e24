#include "link.h"

#include <algorithm>
#include <thread>

namespace s3sim {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

void pause(int milliseconds) {
    if (milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void Pace::moved(size_t byteCount) {
    if (double limit = link.bandwidth; limit > 0) {
        total += static_cast<double>(byteCount);
        std::this_thread::sleep_until(
            begin + std::chrono::duration_cast<Clock::duration>(Seconds(total / limit)));
    }
    if (double limit = link.totalBandwidth; limit > 0) {
        Seconds needed(static_cast<double>(byteCount) / limit);
        Clock::time_point until;
        {
            std::lock_guard lock(link.mutex);
            link.usedUntil = std::max(link.usedUntil, Clock::now())
                + std::chrono::duration_cast<Clock::duration>(needed);
            until = link.usedUntil;
        }
        std::this_thread::sleep_until(until);
    }
}

size_t Pace::step() const {
    constexpr size_t least = 16 << 10, most = 256 << 10, unlimited = 4 << 20;
    if (double limit = link.bandwidth; limit > 0) {
        return std::clamp(static_cast<size_t>(limit / 200), least, most);
    }
    return link.totalBandwidth > 0 ? most / 2 : unlimited;
}

void Counters::reset() {
    for (auto &operation : operations) operation = 0;
    bytesIn = bytesOut = errors = connections = mostRequests = 0;
    mostConnections = openConnections.load();
}

Presence::Presence(std::atomic<uint64_t> &now, std::atomic<uint64_t> &most) : now(now) {
    uint64_t current = ++now, known = most;
    while (current > known && !most.compare_exchange_weak(known, current)) {
    }
}

}  // namespace s3sim
