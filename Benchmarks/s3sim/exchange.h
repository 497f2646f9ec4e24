// One connection, the requests on it, and how they are answered.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "link.h"
#include "store.h"

namespace s3sim {

struct Server {
    Store store;
    Link link;
    Counters counters;
    // Where bodies above 64 KiB are kept.
    std::string blobFolder;
};

// The bytes of a connection, with what was read too far kept for the next reader.
class Connection {
public:
    explicit Connection(int descriptor) : descriptor(descriptor) {}
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // A line without its end; false when the connection ended or the line has no end.
    bool readLine(std::string &line);
    // Returns how much was read, 0 when the connection ended.
    size_t readSome(char *bytes, size_t count);
    // `moreFollows`: let the kernel wait for it before it sends a packet.
    bool send(const char *bytes, size_t count, bool moreFollows = false);
    bool sendFile(int file, uint64_t offset, size_t count);

    bool isOpen() const { return !isBroken; }

private:
    int descriptor;
    std::string pending;
    size_t begin = 0;
    bool isBroken = false;

    bool fill();
};

struct Request {
    std::string method;
    std::string path;
    std::string bucket;
    std::string key;
    std::map<std::string, std::string> headers;
    std::map<std::string, std::string> query;
    bool wantsClose = false;

    static std::optional<Request> read(Connection &connection);

    std::string header(const std::string &name) const;
    std::string asked(const std::string &name) const;
    bool asks(const std::string &name) const { return query.contains(name); }
    Operation operation() const;
    // What a write demands of the key it writes to.
    Condition condition() const;
    // The headers that are stored with an object.
    Headers storedHeaders() const;
};

struct Status {
    int code;
    const char *text;
};

// A request and its answer. Everything that answers returns whether the connection still works.
class Exchange {
public:
    Exchange(Server &server, Connection &connection, Request &request)
        : server(server), connection(connection), request(request) {}

    // Answers the request, whatever it is.
    bool answer();

private:
    struct Body {
        std::shared_ptr<Blob> blob;
        std::string tag;
    };

    Server &server;
    Connection &connection;
    Request &request;
    Body body;

    // Bodies, in body.cpp.
    bool readBody(bool keepInMemory);
    std::shared_ptr<Object> objectOfBody() const;

    // Replies, in exchange.cpp. `announced`: the length of a body that is sent separately.
    bool reply(
        Status status,
        const std::string &headers,
        const std::string &body = "",
        std::optional<uint64_t> announced = std::nullopt);
    bool replyDocument(const std::string &document);
    bool refuse(Status status, const char *code);
    bool refuseAbsent(const char *code) { return refuse({404, "Not Found"}, code); }
    bool refuseCondition();
    bool refuseUnknown() { return refuse({501, "Not Implemented"}, "NotImplemented"); }
    bool sendObject(const Object &object, uint64_t offset, uint64_t count);

    // In control.cpp.
    bool control();
    std::string statistics() const;

    // In buckets.cpp.
    bool answerService();
    bool answerBucket();
    bool list();
    bool removeMany();

    // In objects.cpp.
    bool answerObject();
    bool read();
    bool write();
    bool remove();
    bool copy();
    // The object that a copy is made of; an answer was given when there is none.
    ObjectPointer copySource(bool &isAnswered);

    // In multipart.cpp.
    bool answerMultipart();
    bool beginUpload();
    bool storePart();
    bool listParts();
    bool completeUpload();
};

// "bytes=a-b": false when the header means nothing. A range behind the end has no bytes.
bool parsedRange(const std::string &header, uint64_t size, uint64_t &offset, uint64_t &count);

}  // namespace s3sim
