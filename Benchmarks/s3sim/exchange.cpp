#include "exchange.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "text.h"

namespace s3sim {

// MARK: Connections

Connection::~Connection() { close(descriptor); }

bool Connection::fill() {
    pending.erase(0, begin);
    begin = 0;
    char bytes[64 << 10];
    ssize_t count;
    do count = recv(descriptor, bytes, sizeof bytes, 0);
    while (count < 0 && errno == EINTR);
    if (count <= 0) {
        isBroken = true;
        return false;
    }
    pending.append(bytes, static_cast<size_t>(count));
    return true;
}

bool Connection::readLine(std::string &line) {
    constexpr size_t longest = 64 << 10;
    size_t searched = 0;
    for (;;) {
        size_t end = pending.find('\n', begin + searched);
        if (end != std::string::npos) {
            line.assign(pending, begin, end - begin);
            if (line.ends_with('\r')) line.pop_back();
            begin = end + 1;
            return true;
        }
        searched = pending.size() - begin;
        if (searched > longest || !fill()) return false;
    }
}

size_t Connection::readSome(char *bytes, size_t count) {
    if (begin < pending.size()) {
        count = std::min(count, pending.size() - begin);
        memcpy(bytes, pending.data() + begin, count);
        begin += count;
        return count;
    }
    ssize_t result;
    do result = recv(descriptor, bytes, count, 0);
    while (result < 0 && errno == EINTR);
    if (result <= 0) isBroken = true;
    return result <= 0 ? 0 : static_cast<size_t>(result);
}

bool Connection::send(const char *bytes, size_t count, bool moreFollows) {
    while (count > 0) {
        int flags = MSG_NOSIGNAL | (moreFollows ? MSG_MORE : 0);
        ssize_t sent = ::send(descriptor, bytes, count, flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) {
            isBroken = true;
            return false;
        }
        bytes += sent;
        count -= static_cast<size_t>(sent);
    }
    return true;
}

bool Connection::sendFile(int file, uint64_t offset, size_t count) {
    auto position = static_cast<off_t>(offset);
    while (count > 0) {
        ssize_t sent = sendfile(descriptor, file, &position, count);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) {
            isBroken = true;
            return false;
        }
        count -= static_cast<size_t>(sent);
    }
    return true;
}

// MARK: Requests

static std::map<std::string, std::string> parsedQuery(const std::string &text) {
    std::map<std::string, std::string> query;
    for (size_t begin = 0; begin < text.size();) {
        size_t end = std::min(text.find('&', begin), text.size());
        std::string pair = text.substr(begin, end - begin);
        size_t equals = pair.find('=');
        if (!pair.empty()) {
            std::string value = equals == std::string::npos ? "" : pair.substr(equals + 1);
            query[percentDecoded(pair.substr(0, equals), true)] = percentDecoded(value, true);
        }
        begin = end + 1;
    }
    return query;
}

std::optional<Request> Request::read(Connection &connection) {
    std::string line;
    do {
        if (!connection.readLine(line)) return std::nullopt;
    } while (line.empty());
    size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string::npos || last <= first) return std::nullopt;

    Request request;
    request.method = line.substr(0, first);
    std::string target = line.substr(first + 1, last - first - 1);
    bool isOld = line.compare(last + 1, std::string::npos, "HTTP/1.0") == 0;
    for (;;) {
        if (!connection.readLine(line)) return std::nullopt;
        if (line.empty()) break;
        size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        request.headers[lowercased(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    }
    std::string wish = lowercased(request.header("connection"));
    request.wantsClose = wish == "close" || (isOld && wish != "keep-alive");

    if (size_t mark = target.find('?'); mark != std::string::npos) {
        request.query = parsedQuery(target.substr(mark + 1));
        target.resize(mark);
    }
    request.path = percentDecoded(target, false);
    size_t slash = request.path.find('/', 1);
    if (request.path.size() > 1) request.bucket = request.path.substr(1, slash - 1);
    if (slash != std::string::npos) request.key = request.path.substr(slash + 1);
    return request;
}

std::string Request::header(const std::string &name) const {
    auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

std::string Request::asked(const std::string &name) const {
    auto found = query.find(name);
    return found == query.end() ? "" : found->second;
}

Operation Request::operation() const {
    bool isPut = method == "PUT";
    if (isPut && asks("partNumber")) return Operation::part;
    if (asks("uploads") || asks("uploadId")) return Operation::multipart;
    if (key.empty()) {
        bool isListing = method == "GET" && !bucket.empty() && !asks("location");
        return isListing ? Operation::list : Operation::other;
    }
    if (isPut) return header("x-amz-copy-source").empty() ? Operation::put : Operation::copy;
    if (method == "GET") return Operation::get;
    if (method == "HEAD") return Operation::head;
    return method == "DELETE" ? Operation::remove : Operation::other;
}

Condition Request::condition() const { return {header("if-match"), header("if-none-match")}; }

Headers Request::storedHeaders() const {
    static const char *names[] = {
        "content-type", "cache-control", "content-disposition", "content-language", "expires",
    };
    Headers stored;
    for (const auto &[name, value] : headers) {
        bool isKept = name.starts_with("x-amz-meta-")
            || (name == "content-encoding" && value != "aws-chunked")
            || std::find(std::begin(names), std::end(names), name) != std::end(names);
        if (isKept) stored.emplace_back(name, value);
    }
    return stored;
}

// MARK: Replies

bool Exchange::reply(
    Status status,
    const std::string &headers,
    const std::string &body,
    std::optional<uint64_t> announced) {
    if (status.code >= 400) server.counters.errors++;
    std::string text = "HTTP/1.1 " + std::to_string(status.code) + " " + status.text
        + "\r\nServer: s3sim\r\nDate: " + httpDate(time(nullptr))
        + "\r\nx-amz-request-id: " + std::to_string(server.store.unique()) + "\r\n" + headers;
    if (status.code != 204 && status.code != 304) {
        text += "Content-Length: " + std::to_string(announced.value_or(body.size())) + "\r\n";
    }
    text += "\r\n";
    bool hasBody = request.method != "HEAD";
    if (hasBody) {
        text += body;
        server.counters.bytesOut += body.size();
    }
    return connection.send(text.data(), text.size(), hasBody && announced.value_or(0) > 0);
}

bool Exchange::replyDocument(const std::string &document) {
    static const std::string declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    return reply({200, "OK"}, "Content-Type: application/xml\r\n", declaration + document);
}

bool Exchange::refuse(Status status, const char *code) {
    std::string document = std::string("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        + "<Error><Code>" + code + "</Code><Message>" + code + "</Message><Resource>"
        + xmlEscaped(request.path) + "</Resource><RequestId>1</RequestId></Error>";
    return reply(status, "Content-Type: application/xml\r\n", document);
}

bool Exchange::refuseCondition() {
    return refuse({412, "Precondition Failed"}, "PreconditionFailed");
}

bool Exchange::sendObject(const Object &object, uint64_t offset, uint64_t count) {
    Pace pace(server.link);
    const size_t step = pace.step();
    for (const Segment &segment : object.slice(offset, count)) {
        const std::string &path = segment.blob->path;
        int file = path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (!path.empty() && file < 0) return false;
        bool works = true;
        for (uint64_t done = 0; works && done < segment.byteCount;) {
            uint64_t position = segment.offset + done;
            size_t part = std::min<uint64_t>(segment.byteCount - done, step);
            works = file < 0 ? connection.send(segment.blob->memory.data() + position, part)
                             : connection.sendFile(file, position, part);
            server.counters.bytesOut += part;
            done += part;
            pace.moved(part);
        }
        if (file >= 0) close(file);
        if (!works) return false;
    }
    return true;
}

// MARK: Answers

bool Exchange::answer() {
    if (request.path.starts_with("/_sim/")) return control();
    Presence presence(server.counters.openRequests, server.counters.mostRequests);
    Operation operation = request.operation();
    server.counters.operations[static_cast<int>(operation)]++;

    bool isPost = request.method == "POST";
    if (request.method == "PUT" || isPost) {
        if (lowercased(request.header("expect")) == "100-continue") {
            static const std::string go = "HTTP/1.1 100 Continue\r\n\r\n";
            if (!connection.send(go.data(), go.size())) return false;
        }
        if (!readBody(isPost)) return false;
    }
    int listLatency = server.link.listLatency;
    bool isListing = operation == Operation::list && listLatency >= 0;
    pause(isListing ? listLatency : server.link.latency.load());

    if (request.bucket.empty()) return answerService();
    if (request.key.empty()) return answerBucket();
    if (!server.store.hasBucket(request.bucket)) return refuseAbsent("NoSuchBucket");
    if (operation == Operation::multipart || operation == Operation::part) {
        return answerMultipart();
    }
    return answerObject();
}

}  // namespace s3sim
