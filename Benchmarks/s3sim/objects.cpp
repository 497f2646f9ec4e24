// Requests about one object.
#include <algorithm>

#include "exchange.h"
#include "text.h"

namespace s3sim {

bool parsedRange(const std::string &header, uint64_t size, uint64_t &offset, uint64_t &count) {
    if (!header.starts_with("bytes=") || header.find(',') != std::string::npos) return false;
    std::string range = header.substr(6);
    size_t dash = range.find('-');
    if (dash == std::string::npos) return false;
    if (dash == 0) {
        count = std::min<uint64_t>(strtoull(range.c_str() + 1, nullptr, 10), size);
        offset = size - count;
        return true;
    }
    offset = strtoull(range.c_str(), nullptr, 10);
    if (offset >= size) {
        count = 0;
        return true;
    }
    uint64_t last = size - 1;
    if (dash + 1 < range.size()) {
        last = std::min<uint64_t>(last, strtoull(range.c_str() + dash + 1, nullptr, 10));
    }
    if (last < offset) return false;
    count = last - offset + 1;
    return true;
}

static std::string described(const Object &object) {
    std::string headers = "ETag: \"" + object.tag + "\"\r\nLast-Modified: "
        + httpDate(object.modified) + "\r\nAccept-Ranges: bytes\r\n";
    bool hasType = false;
    for (const auto &[name, value] : object.headers) {
        headers += name + ": " + value + "\r\n";
        hasType = hasType || name == "content-type";
    }
    return hasType ? headers : headers + "Content-Type: application/octet-stream\r\n";
}

bool Exchange::answerObject() {
    for (const char *topic :
         {"acl", "tagging", "retention", "legal-hold", "torrent", "attributes"}) {
        if (request.asks(topic)) return refuseUnknown();
    }
    if (request.method == "GET" || request.method == "HEAD") return read();
    if (request.method == "DELETE") return remove();
    if (request.method != "PUT") return refuse({405, "Method Not Allowed"}, "MethodNotAllowed");
    return request.header("x-amz-copy-source").empty() ? write() : copy();
}

bool Exchange::read() {
    ObjectPointer object = server.store.find(request.bucket, request.key);
    if (!object) return refuseAbsent("NoSuchKey");

    std::string match = request.header("if-match"), noneMatch = request.header("if-none-match");
    time_t since = parsedHTTPDate(request.header("if-modified-since"));
    time_t until = parsedHTTPDate(request.header("if-unmodified-since"));
    bool isOther = match.empty() ? until >= 0 && object->modified > until
                                 : !tagIsIn(match, object->tag);
    if (isOther) return refuseCondition();
    bool isKnown = noneMatch.empty() ? since >= 0 && object->modified <= since
                                     : tagIsIn(noneMatch, object->tag);
    if (isKnown) return reply({304, "Not Modified"}, described(*object));

    Status status{200, "OK"};
    std::string headers = described(*object);
    uint64_t offset = 0, count = object->byteCount;
    if (parsedRange(request.header("range"), object->byteCount, offset, count)) {
        std::string whole = "/" + std::to_string(object->byteCount) + "\r\n";
        if (count == 0) {
            return reply(
                {416, "Range Not Satisfiable"},
                "Content-Type: application/xml\r\nContent-Range: bytes *" + whole,
                "<Error><Code>InvalidRange</Code></Error>");
        }
        status = {206, "Partial Content"};
        headers += "Content-Range: bytes " + std::to_string(offset) + "-"
            + std::to_string(offset + count - 1) + whole;
    }
    if (!reply(status, headers, "", count)) return false;
    return request.method == "HEAD" || sendObject(*object, offset, count);
}

bool Exchange::remove() {
    Outcome outcome = server.store.remove(request.bucket, request.key, request.condition());
    if (outcome == Outcome::conditionFailed) return refuseCondition();
    return reply({204, "No Content"}, "");
}

bool Exchange::write() {
    std::shared_ptr<Object> object = objectOfBody();
    object->headers = request.storedHeaders();
    std::string tag = object->tag;
    switch (server.store.put(
        request.bucket, request.key, std::move(object), request.condition())) {
    case Outcome::done: return reply({200, "OK"}, "ETag: \"" + tag + "\"\r\n");
    case Outcome::conditionFailed: return refuseCondition();
    case Outcome::absent: return refuseAbsent("NoSuchBucket");
    }
    return false;
}

ObjectPointer Exchange::copySource(bool &isAnswered) {
    std::string source = request.header("x-amz-copy-source");
    source.resize(std::min(source.find("?versionId"), source.size()));
    source = percentDecoded(source, false);
    if (source.starts_with('/')) source.erase(0, 1);
    size_t slash = std::min(source.find('/'), source.size());
    std::string key = slash < source.size() ? source.substr(slash + 1) : "";
    ObjectPointer found = server.store.find(source.substr(0, slash), key);
    if (!found) {
        isAnswered = refuseAbsent("NoSuchKey");
        return nullptr;
    }
    std::string match = request.header("x-amz-copy-source-if-match");
    if (!match.empty() && !tagIsIn(match, found->tag)) {
        isAnswered = refuseCondition();
        return nullptr;
    }
    return found;
}

bool Exchange::copy() {
    bool isAnswered = false;
    ObjectPointer source = copySource(isAnswered);
    if (!source) return isAnswered;
    auto object = std::make_shared<Object>(*source);
    object->modified = time(nullptr);
    if (request.header("x-amz-metadata-directive") == "REPLACE") {
        object->headers = request.storedHeaders();
    }
    std::string document = "<CopyObjectResult><LastModified>" + isoDate(object->modified)
        + "</LastModified><ETag>&quot;" + object->tag + "&quot;</ETag></CopyObjectResult>";
    switch (server.store.put(
        request.bucket, request.key, std::move(object), request.condition())) {
    case Outcome::done: return replyDocument(document);
    case Outcome::conditionFailed: return refuseCondition();
    case Outcome::absent: return refuseAbsent("NoSuchBucket");
    }
    return false;
}

}  // namespace s3sim
