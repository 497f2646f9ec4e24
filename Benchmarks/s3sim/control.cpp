// What the benchmarks ask of the simulator itself.
#include <cstdlib>

#include "exchange.h"

namespace s3sim {

bool Exchange::control() {
    const std::string bucket = request.asked("bucket"), prefix = request.asked("prefix");
    if (request.path == "/_sim/set") {
        for (const auto &[name, text] : request.query) {
            double value = atof(text.c_str());
            if (name == "latency_ms") server.link.latency = static_cast<int>(value);
            if (name == "list_latency_ms") server.link.listLatency = static_cast<int>(value);
            if (name == "connect_ms") server.link.connectLatency = static_cast<int>(value);
            if (name == "bandwidth") server.link.bandwidth = value;
            if (name == "total_bandwidth") server.link.totalBandwidth = value;
        }
        return reply({200, "OK"}, "", "ok\n");
    }
    if (request.path == "/_sim/reset") {
        server.counters.reset();
        return reply({200, "OK"}, "", "ok\n");
    }
    if (request.path == "/_sim/count") {
        auto [objects, bytes] = server.store.count(bucket, prefix);
        std::string counted = "{\"objects\": " + std::to_string(objects)
            + ", \"bytes\": " + std::to_string(bytes) + "}\n";
        return reply({200, "OK"}, "Content-Type: application/json\r\n", counted);
    }
    if (request.path == "/_sim/remove" && !prefix.empty()) {
        size_t count = server.store.removeAll(bucket, prefix);
        return reply({200, "OK"}, "", std::to_string(count) + "\n");
    }
    if (request.path == "/_sim/fill") {
        server.store.makeUp(
            bucket, prefix, strtoull(request.asked("objects").c_str(), nullptr, 10), 0);
        return reply({200, "OK"}, "", "ok\n");
    }
    if (request.path == "/_sim/statistics") {
        return reply({200, "OK"}, "Content-Type: application/json\r\n", statistics());
    }
    return refuseAbsent("NoSuchControl");
}

std::string Exchange::statistics() const {
    const Counters &counters = server.counters;
    std::string text = "{";
    for (int index = 0; index < static_cast<int>(Operation::count); index++) {
        text += std::string("\"") + operationNames[index]
            + "\": " + std::to_string(counters.operations[index]) + ", ";
    }
    auto add = [&](const char *name, uint64_t value, const char *end = ", ") {
        text += std::string("\"") + name + "\": " + std::to_string(value) + end;
    };
    add("bytes_in", counters.bytesIn);
    add("bytes_out", counters.bytesOut);
    add("connections", counters.connections);
    add("most_connections", counters.mostConnections);
    add("open_requests", counters.openRequests);
    add("most_requests", counters.mostRequests);
    add("errors", counters.errors, "}\n");
    return text;
}

}  // namespace s3sim
