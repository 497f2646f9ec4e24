// What the way to the cloud looks like, and what was asked on it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace s3sim {

// All of it can be changed while the server runs; 0 is no limit.
struct Link {
    std::atomic<int> latency{0};            // ms before the first byte of each answer
    std::atomic<int> listLatency{-1};       // the same for listings; -1: as latency
    std::atomic<int> connectLatency{0};     // ms when a connection is accepted
    std::atomic<double> bandwidth{0};       // bytes/s of each connection, either way
    std::atomic<double> totalBandwidth{0};  // bytes/s of all connections together

    // Until when all connections together have used up what they may send.
    std::mutex mutex;
    std::chrono::steady_clock::time_point usedUntil{};
};

void pause(int milliseconds);

// Keeps one transfer at the link's bandwidth.
class Pace {
public:
    explicit Pace(Link &link) : link(link) {}

    // Waits for as long as these bytes should have taken.
    void moved(size_t byteCount);
    // How much may be moved at once, so that the flow stays even.
    size_t step() const;

private:
    Link &link;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    double total = 0;
};

enum class Operation {
    get, head, put, copy, remove, list, multipart, part, other, count
};
inline constexpr const char *operationNames[] = {
    "get", "head", "put", "copy", "delete", "list", "multipart", "part", "other",
};

struct Counters {
    std::atomic<uint64_t> operations[static_cast<int>(Operation::count)];
    std::atomic<uint64_t> bytesIn, bytesOut, errors, connections;
    std::atomic<uint64_t> openConnections, mostConnections, openRequests, mostRequests;

    void reset();
};

// Counts one more of something, and how many there were at most at one time.
class Presence {
public:
    Presence(std::atomic<uint64_t> &now, std::atomic<uint64_t> &most);
    ~Presence() { now--; }
    Presence(const Presence &) = delete;
    Presence &operator=(const Presence &) = delete;

private:
    std::atomic<uint64_t> &now;
};

}  // namespace s3sim
