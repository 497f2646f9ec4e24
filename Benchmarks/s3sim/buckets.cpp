// Requests about buckets: listings above all.
#include <algorithm>

#include "exchange.h"
#include "text.h"

namespace s3sim {

static const std::string schema = " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

bool Exchange::answerService() {
    std::string document = "<ListAllMyBucketsResult" + schema
        + "><Owner><ID>s3sim</ID><DisplayName>s3sim</DisplayName></Owner><Buckets>";
    for (const std::string &name : server.store.bucketNames()) {
        document += "<Bucket><Name>" + name
            + "</Name><CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket>";
    }
    return replyDocument(document + "</Buckets></ListAllMyBucketsResult>");
}

bool Exchange::answerBucket() {
    const std::string &method = request.method;
    if (method == "PUT") {
        if (request.query.empty()) server.store.makeBucket(request.bucket);
        return reply({200, "OK"}, "");
    }
    if (!server.store.hasBucket(request.bucket)) return refuseAbsent("NoSuchBucket");
    if (method == "HEAD") return reply({200, "OK"}, "x-amz-bucket-region: us-east-1\r\n");
    if (method == "DELETE") {
        if (!server.store.removeBucket(request.bucket)) {
            return refuse({409, "Conflict"}, "BucketNotEmpty");
        }
        return reply({204, "No Content"}, "");
    }
    if (method == "POST" && request.asks("delete")) return removeMany();
    if (method != "GET") return refuse({405, "Method Not Allowed"}, "MethodNotAllowed");
    if (request.asks("location")) {
        return replyDocument(
            "<LocationConstraint" + schema + ">us-east-1</LocationConstraint>");
    }
    if (request.asks("versioning")) {
        return replyDocument("<VersioningConfiguration" + schema + "/>");
    }
    if (request.asks("uploads")) {
        std::string document = "<ListMultipartUploadsResult" + schema + "><Bucket>"
            + request.bucket + "</Bucket><IsTruncated>false</IsTruncated>";
        for (const auto &[id, upload] : server.store.uploads(request.bucket)) {
            if (!upload.key.starts_with(request.asked("prefix"))) continue;
            bool isEncoded = request.asked("encoding-type") == "url";
            document += "<Upload><Key>"
                + (isEncoded ? percentEncoded(upload.key) : xmlEscaped(upload.key))
                + "</Key><UploadId>" + id + "</UploadId></Upload>";
        }
        return replyDocument(document + "</ListMultipartUploadsResult>");
    }
    for (const char *topic :
         {"acl", "policy", "tagging", "lifecycle", "cors", "encryption", "object-lock",
          "versions"}) {
        if (request.asks(topic)) return refuseUnknown();
    }
    return list();
}

bool Exchange::removeMany() {
    std::string document = "<DeleteResult" + schema + ">";
    for (const std::string &key : xmlValues(body.blob->memory, "Key")) {
        server.store.remove(request.bucket, key, {});
        document += "<Deleted><Key>" + xmlEscaped(key) + "</Key></Deleted>";
    }
    return replyDocument(document + "</DeleteResult>");
}

// The first key that does not begin like this one, which ends in the delimiter.
static std::string behind(std::string prefix) {
    prefix.back()++;
    return prefix;
}

bool Exchange::list() {
    const bool isSecond = request.asked("list-type") == "2";
    const bool isEncoded = request.asked("encoding-type") == "url";
    const std::string prefix = request.asked("prefix"), delimiter = request.asked("delimiter");
    const std::string token = request.asked("continuation-token");
    const std::string after =
        !isSecond ? request.asked("marker") : token.empty() ? request.asked("start-after") : token;
    size_t limit = 1000;
    if (request.asks("max-keys")) {
        limit = std::min<size_t>(limit, strtoul(request.asked("max-keys").c_str(), nullptr, 10));
    }
    auto shown = [&](const std::string &key) {
        return isEncoded ? percentEncoded(key) : xmlEscaped(key);
    };

    std::string objects, folders, last;
    size_t count = 0;
    bool isTruncated = false;
    server.store.read(request.bucket, [&](const Store::Keys &keys) {
        auto at = after > prefix ? keys.upper_bound(after) : keys.lower_bound(prefix);
        bool isBehindFolder = !delimiter.empty() && after.size() > prefix.size()
            && after.starts_with(prefix) && after.ends_with(delimiter);
        if (isBehindFolder) at = keys.lower_bound(behind(after));
        while (at != keys.end() && at->first.starts_with(prefix)) {
            if (count >= limit) {
                isTruncated = limit > 0;
                break;
            }
            count++;
            size_t cut =
                delimiter.empty() ? std::string::npos : at->first.find(delimiter, prefix.size());
            if (cut != std::string::npos) {
                last = at->first.substr(0, cut + delimiter.size());
                folders +=
                    "<CommonPrefixes><Prefix>" + shown(last) + "</Prefix></CommonPrefixes>";
                at = keys.lower_bound(behind(last));
                continue;
            }
            const auto &[key, object] = *at;
            last = key;
            objects += "<Contents><Key>" + shown(key) + "</Key><LastModified>"
                + isoDate(object->modified) + "</LastModified><ETag>&quot;" + object->tag
                + "&quot;</ETag><Size>" + std::to_string(object->byteCount)
                + "</Size><StorageClass>STANDARD</StorageClass></Contents>";
            ++at;
        }
    });

    std::string document = "<ListBucketResult" + schema + "><Name>" + request.bucket
        + "</Name><Prefix>" + shown(prefix) + "</Prefix><MaxKeys>" + std::to_string(limit)
        + "</MaxKeys><IsTruncated>" + (isTruncated ? "true" : "false") + "</IsTruncated>";
    if (!delimiter.empty()) document += "<Delimiter>" + shown(delimiter) + "</Delimiter>";
    if (isEncoded) document += "<EncodingType>url</EncodingType>";
    if (isSecond) {
        document += "<KeyCount>" + std::to_string(count) + "</KeyCount>";
        if (!token.empty()) {
            document += "<ContinuationToken>" + xmlEscaped(token) + "</ContinuationToken>";
        }
        if (isTruncated) {
            document += "<NextContinuationToken>" + xmlEscaped(last) + "</NextContinuationToken>";
        }
    } else {
        document += "<Marker>" + shown(after) + "</Marker>";
        if (isTruncated) document += "<NextMarker>" + shown(last) + "</NextMarker>";
    }
    return replyDocument(document + objects + folders + "</ListBucketResult>");
}

}  // namespace s3sim
