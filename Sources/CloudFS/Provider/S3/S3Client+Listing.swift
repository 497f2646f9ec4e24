import Crypto
import Foundation

extension S3Client {
    /// One page of a listing, in the server's order.
    ///
    /// - Parameters:
    ///   - prefix: What all keys begin with.
    ///   - delimiter: Whether keys are gathered by folder.
    ///   - token: `next` of the page before.
    ///   - startAfter: Only keys behind this one.
    ///   - limit: How many entries at most, 1 to 1,000.
    ///   - mayLackKeys: Whether a page will do that has entries nobody can decode.
    /// - Throws: `corrupt` for keys that do not belong there and for a page that leads to itself.
    func list(
        prefix: [UInt8],
        delimiter: Bool,
        after token: String? = nil,
        startAfter: [UInt8]? = nil,
        limit: Int = 1_000,
        mayLackKeys: Bool = false
    ) async throws(CloudFSError) -> S3ListPage {
        try await perform {
            var call = S3Call(method: "GET")
            call.ask("list-type", "2")
            // Keys may hold what XML cannot.
            call.ask("encoding-type", "url")
            call.ask("max-keys", String(limit))
            if !prefix.isEmpty { call.ask("prefix", prefix) }
            if delimiter { call.ask("delimiter", "/") }
            if let token { call.ask("continuation-token", token) }
            if let startAfter { call.ask("start-after", startAfter) }
            return call
        } consume: { answer throws(CloudFSError) in
            let document = try await answer.wholeBody(atMost: S3XML.maximumByteCount)
            var page = try S3XMLListing.read(S3XML.withoutForbiddenReferences(document))
            try S3ListingCheck.check(page, prefix: prefix, token: token)
            guard mayLackKeys || page.undecoded.isEmpty else {
                throw S3XML.failure("a key is not encoded rightly")
            }
            let count = page.objects.count + page.prefixes.count + page.undecoded.count
            guard count <= max(limit, 1_000) else {
                throw S3XML.failure("it lists more than it was asked for")
            }
            if let startAfter {
                // A server that does not know the parameter gives everything.
                page.objects.removeAll { !startAfter.lexicographicallyPrecedes($0.key) }
            }
            return page
        }
    }

    /// All pages of a listing, one after the other.
    ///
    /// - Parameter page: Takes a page; `false` ends the listing.
    func listAll(
        prefix: [UInt8],
        delimiter: Bool,
        after first: String? = nil,
        startAfter: [UInt8]? = nil,
        page: (S3ListPage) async throws(CloudFSError) -> Bool
    ) async throws(CloudFSError) {
        var check = S3ListingCheck()
        var token = first
        repeat {
            let current = try await list(
                prefix: prefix,
                delimiter: delimiter,
                after: token,
                startAfter: startAfter
            )
            try check.note(current)
            guard try await page(current) else { return }
            token = current.next
        } while token != nil
    }

    /// Whether many objects are not deleted in one request here.
    var lacksBatches: Bool { learned.withLock { $0.lacksBatches } }

    /// Deletes up to 1,000 objects; those that were not there count as deleted.
    ///
    /// - Parameter isOwn: Whether nobody else writes them: then it is done one by one where the
    ///   server does not do it at once.
    /// - Returns: The keys that were not deleted, each with its reason.
    /// - Throws: `unsupported` where that is left to who knows what is to be deleted; some may be.
    func deleteBatch(
        _ keys: [[UInt8]],
        isOwn: Bool = false
    ) async throws(CloudFSError) -> [S3DeleteError] {
        guard !keys.isEmpty else { return [] }
        precondition(keys.count <= 1_000, "a batch has at most 1,000 keys")
        let (inXML, others) = Self.split(keys)
        let errors = try await deleteOneByOne(others, isOwn: isOwn)
        guard !inXML.isEmpty else { return errors }
        do throws(CloudFSError) {
            return errors + (try await deleteInXML(inXML, isOwn: isOwn))
        } catch  where error.code == .unsupported && isOwn {
            return errors + (try await deleteOneByOne(inXML, isOwn: isOwn))
        }
    }

    /// - Throws: `unsupported` where many objects are not deleted in one request.
    private func deleteInXML(
        _ keys: [[UInt8]],
        isOwn: Bool
    ) async throws(CloudFSError) -> [S3DeleteError] {
        let unsupported = CloudFSError(.unsupported, "objects are deleted one by one here")
        guard !lacksBatches else { throw unsupported }
        do throws(CloudFSError) {
            return try await sendBatch(keys, isOwn: isOwn)
        } catch  where error.code == .unsupported || error.code == .denied {
            // Who may delete objects may not always do so in one request: Ceph asks for the
            // permission on the bucket, too.
            if error.code == .denied { try await delete(keys[0], isOwn: isOwn) }
            learned.withLock { $0.lacksBatches = true }
            throw unsupported
        }
    }

    private func sendBatch(
        _ keys: [[UInt8]],
        isOwn: Bool
    ) async throws(CloudFSError) -> [S3DeleteError] {
        let document = Self.deleteDocument(keys)
        let digest = Data(Insecure.MD5.hash(data: document)).base64EncodedString()
        return try await perform {
            var call = S3Call(method: "POST", body: .bytes(document))
            call.isOwn = isOwn
            call.query.append((name: "delete", value: nil))
            call.headers.append((name: "content-md5", value: digest))
            call.headers.append((name: "content-type", value: "application/xml"))
            return call
        } consume: { [endpoint] answer throws(CloudFSError) in
            let question = S3Question(endpoint: endpoint, method: "POST", key: nil)
            let document = try await self.fields(of: answer, to: question, root: "DeleteResult")
            return try Self.deleteErrors(document, endpoint, Set(keys))
        }
    }

    private static func deleteErrors(
        _ document: S3XMLFields,
        _ endpoint: S3Endpoint,
        _ asked: Set<[UInt8]>
    ) throws(CloudFSError) -> [S3DeleteError] {
        var errors: [S3DeleteError] = []
        for record in document.records where record.name == "Error" {
            let key = Array((record.fields["Key"] ?? "").utf8)
            guard asked.contains(key) else { throw S3XML.failure("it is about other keys") }
            let code = record.fields["Code"] ?? ""
            guard code != "NoSuchKey" else { continue }
            let failure = S3ErrorMapping.failure(
                ofCode: code,
                to: S3Question(endpoint: endpoint, method: "DELETE", key: key)
            )
            errors.append(
                S3DeleteError(key: key, failure: failure, message: record.fields["Message"] ?? "")
            )
        }
        return errors
    }

    /// Keys that XML can carry, and the others.
    private static func split(_ keys: [[UInt8]]) -> (inXML: [[UInt8]], others: [[UInt8]]) {
        var (inXML, others): ([[UInt8]], [[UInt8]]) = ([], [])
        for key in keys {
            let text = String(validating: key, as: UTF8.self)
            let isText =
                text?.unicodeScalars.allSatisfy {
                    $0.value >= 0x20 && $0.value != 0xfffe && $0.value != 0xffff
                } ?? false
            if isText { inXML.append(key) } else { others.append(key) }
        }
        return (inXML, others)
    }

    private func deleteOneByOne(
        _ keys: [[UInt8]],
        isOwn: Bool
    ) async throws(CloudFSError) -> [S3DeleteError] {
        let results = await withTaskGroup(of: Result<S3DeleteError?, CloudFSError>.self) { group in
            var results: [Result<S3DeleteError?, CloudFSError>] = []
            for (number, key) in keys.enumerated() {
                if number >= Self.parallelDeletions, let ended = await group.next() {
                    results.append(ended)
                    if case .failure = ended { break }
                }
                group.addTask { await self.refusalToDelete(key, isOwn: isOwn) }
            }
            return await group.reduce(into: results) { $0.append($1) }
        }
        var refusals: [S3DeleteError] = []
        for result in results {
            if let refusal = try result.get() { refusals.append(refusal) }
        }
        return refusals
    }

    private static let parallelDeletions = 16

    /// - Returns: Why the server does not permit it; any other reason is a failure.
    private func refusalToDelete(
        _ key: [UInt8],
        isOwn: Bool
    ) async -> Result<S3DeleteError?, CloudFSError> {
        do throws(CloudFSError) {
            try await delete(key, isOwn: isOwn)
            return .success(nil)
        } catch {
            guard let failure = error.cause as? S3Failure, failure == .accessDenied else {
                return .failure(error)
            }
            return .success(S3DeleteError(key: key, failure: failure, message: error.message))
        }
    }

    private static func deleteDocument(_ keys: [[UInt8]]) -> [UInt8] {
        var document = Array(
            #"<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>"#.utf8
        )
        for key in keys {
            document += "<Object><Key>".utf8
            document += S3XMLText.escaped(key)
            document += "</Key></Object>".utf8
        }
        document += "</Delete>".utf8
        return document
    }
}

/// Finds listings that lead nowhere.
struct S3ListingCheck {
    private var token: String?
    private var entry: [UInt8]?
    private var count = 0
    private var markAt = 1
    private var emptyCount = 0

    /// Pages without any entry are legal, after many deletions for one; so many are not.
    private static let maximumEmptyCount = 1_000

    /// Checks a page for itself.
    static func check(
        _ page: S3ListPage,
        prefix: [UInt8],
        token: String?
    ) throws(CloudFSError) {
        if let token, page.next == token { throw S3XML.failure("the next page is the same again") }
        guard page.objects.allSatisfy({ $0.key.starts(with: prefix) }),
            page.prefixes.allSatisfy({ $0.starts(with: prefix) })
        else { throw S3XML.failure("it lists keys that were not asked for") }
    }

    /// Checks a page against those before.
    ///
    /// One earlier page is remembered, after ever longer pauses: any circle leads past it again,
    /// and no memory is needed for the others.
    mutating func note(_ page: S3ListPage) throws(CloudFSError) {
        let first = page.objects.first?.key ?? page.prefixes.first
        emptyCount = first == nil ? emptyCount + 1 : 0
        guard emptyCount <= Self.maximumEmptyCount else {
            throw S3XML.failure("the listing has no end")
        }
        if let next = page.next, next == token { throw S3XML.failure("the listing has no end") }
        if let first, first == entry { throw S3XML.failure("the listing has no end") }
        count += 1
        if count == markAt {
            markAt *= 2
            token = page.next
            entry = first ?? entry
        }
    }
}

/// Text as it stands in a document.
enum S3XMLText {
    static func escaped(_ text: some Sequence<UInt8>) -> [UInt8] {
        var escaped: [UInt8] = []
        for byte in text {
            switch byte {
            case UInt8(ascii: "&"): escaped += "&amp;".utf8
            case UInt8(ascii: "<"): escaped += "&lt;".utf8
            case UInt8(ascii: ">"): escaped += "&gt;".utf8
            case UInt8(ascii: "\""): escaped += "&quot;".utf8
            default: escaped.append(byte)
            }
        }
        return escaped
    }
}
