// s3sim: a small part of S3 on the loopback interface, to measure mounts of a cloud with.
//
// Every folder of --import becomes a bucket and every file below it an object, read in place
// and never changed. What is stored is kept in memory up to 64 KiB, above that as files in
// --blobs; nothing survives the end of the program. Signatures are not looked at, and buckets
// stand in the path.
//
// It knows: buckets (list, create, head, location, delete), listings (both versions; prefix,
// delimiter, pages, start-after, url encoding), GET and HEAD (ranges, all four conditions), PUT
// (If-Match, If-None-Match, metadata, signed chunks), copies (of objects and as parts, with their
// condition), DELETE (also with If-Match) of one or many, and uploads in parts with conditions on
// their completion. It honours conditions exactly, as few real servers do.
//
// What the way to the cloud looks like is set while it runs:
//   GET /_sim/set?latency_ms=20&bandwidth=50e6     also list_latency_ms, connect_ms,
//                                                  total_bandwidth; see Link in link.h
//   GET /_sim/statistics                           requests by kind, bytes, connections
//   GET /_sim/reset                                counts from zero
//   GET /_sim/count?bucket=b&prefix=p              objects and bytes below a prefix
//   GET /_sim/remove?bucket=b&prefix=p             removes them
//   GET /_sim/fill?bucket=b&prefix=p&objects=n     makes some up, as --synthetic does
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "exchange.h"

using namespace s3sim;

static void serve(Server &server, int descriptor) {
    server.counters.connections++;
    Presence presence(server.counters.openConnections, server.counters.mostConnections);
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pause(server.link.connectLatency);
    Connection connection(descriptor);
    while (connection.isOpen()) {
        std::optional<Request> request = Request::read(connection);
        if (!request) break;
        if (!Exchange(server, connection, *request).answer() || request->wantsClose) break;
    }
}

static int listening(int port) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(descriptor, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) return -1;
    return listen(descriptor, 1024) == 0 ? descriptor : -1;
}

int main(int count, char **arguments) {
    // Detached threads use it until the program ends: never destroyed.
    Server &server = *new Server;
    int port = 0;
    for (int index = 1; index + 1 < count; index += 2) {
        std::string name = arguments[index], value = arguments[index + 1];
        if (name == "--port") {
            port = atoi(value.c_str());
        } else if (name == "--blobs") {
            server.blobFolder = value;
        } else if (name == "--import") {
            if (!server.store.import(value)) {
                fprintf(stderr, "s3sim: %s cannot be read\n", value.c_str());
                return 1;
            }
        } else if (name == "--synthetic") {
            // COUNT/PER-FOLDER, in a bucket of this name.
            size_t slash = value.find('/');
            server.store.makeUp(
                "synthetic", "", strtoull(value.c_str(), nullptr, 10),
                slash == std::string::npos ? 0 : strtoull(&value[slash + 1], nullptr, 10));
        } else {
            fprintf(stderr, "s3sim: unknown option %s\n", name.c_str());
            return 2;
        }
    }
    if (port == 0 || server.blobFolder.empty() || count % 2 == 0) {
        fprintf(stderr, "usage: s3sim --port PORT --blobs FOLDER [--import FOLDER] [--synthetic N/PER-FOLDER]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    std::filesystem::create_directories(server.blobFolder);
    int listener = listening(port);
    if (listener < 0) {
        perror("s3sim: listen");
        return 1;
    }
    fprintf(stderr, "s3sim on 127.0.0.1:%d\n", port);
    for (;;) {
        int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (descriptor >= 0) {
            std::thread(serve, std::ref(server), descriptor).detach();
        } else if (errno == EMFILE || errno == ENFILE) {
            pause(10);
        }
    }
}
