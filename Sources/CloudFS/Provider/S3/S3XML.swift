import CExpat

/// Reads XML documents of servers that are not trusted.
///
/// Only what S3 needs: elements and their text. A document type is refused, so that there are no
/// entities but the five of XML; size and depth are bounded.
enum S3XML {
    static let maximumByteCount = 16 << 20
    /// What is read of an answer that is no success: it has a code and a sentence.
    static let longestRefusal = 256 << 10
    static let maximumDepth = 16

    /// Walks through a document.
    ///
    /// - Throws: `corrupt` when it is no document, or none that a server has a reason to send.
    static func read(_ bytes: [UInt8], into visitor: S3XMLVisitor) throws(CloudFSError) {
        guard bytes.count <= maximumByteCount else { throw failure("it is too long") }
        // What the document says of its encoding is overridden: there is only one.
        guard let parser = XML_ParserCreate("UTF-8") else {
            throw CloudFSError(.internalFailure, "there is no memory to read an answer")
        }
        defer { XML_ParserFree(parser) }
        let walk = Walk(parser: parser, visitor: visitor)
        let status = withExtendedLifetime(walk) {
            XML_SetUserData(parser, Unmanaged.passUnretained(walk).toOpaque())
            Self.setHandlers(of: parser)
            return bytes.withUnsafeBytes { bytes in
                XML_Parse(
                    parser,
                    bytes.bindMemory(to: CChar.self).baseAddress,
                    Int32(bytes.count),
                    1
                )
            }
        }
        if let reason = walk.refusal { throw failure(reason) }
        guard status == XML_STATUS_OK else {
            let reason = XML_ErrorString(XML_GetErrorCode(parser)).map { String(cString: $0) }
            throw failure(reason ?? "it is no XML")
        }
    }

    static func failure(_ reason: String) -> CloudFSError {
        CloudFSError(
            .corrupt,
            "the server's answer cannot be understood: \(reason)",
            cause: S3Failure.wrongAnswer
        )
    }

    private static func setHandlers(of parser: XML_Parser) {
        XML_SetElementHandler(
            parser,
            { data, name, _ in
                guard let data, let name else { return }
                Unmanaged<Walk>.fromOpaque(data).takeUnretainedValue().open(S3XMLName(name))
            },
            { data, name in
                guard let data, let name else { return }
                Unmanaged<Walk>.fromOpaque(data).takeUnretainedValue().close(S3XMLName(name))
            }
        )
        XML_SetCharacterDataHandler(parser) { data, text, count in
            guard let data, let text else { return }
            Unmanaged<Walk>.fromOpaque(data).takeUnretainedValue()
                .append(UnsafeBufferPointer(start: text, count: Int(count)))
        }
        XML_SetStartDoctypeDeclHandler(parser) { data, _, _, _, _ in
            guard let data else { return }
            Unmanaged<Walk>.fromOpaque(data).takeUnretainedValue()
                .refuse("it declares a document type")
        }
    }

    /// One walk through one document.
    private final class Walk {
        private let parser: XML_Parser
        private let visitor: S3XMLVisitor
        private var depth = 0
        private var text: [UInt8] = []
        private(set) var refusal: String?

        init(parser: XML_Parser, visitor: S3XMLVisitor) {
            self.parser = parser
            self.visitor = visitor
            text.reserveCapacity(1_024)
        }

        func open(_ name: S3XMLName) {
            guard refusal == nil else { return }
            depth += 1
            guard depth <= S3XML.maximumDepth else { return refuse("it is too deep") }
            text.removeAll(keepingCapacity: true)
            visitor.open(name, depth: depth)
        }

        func close(_ name: S3XMLName) {
            guard refusal == nil else { return }
            if let reason = visitor.close(name, depth: depth, text: text) { refuse(reason) }
            text.removeAll(keepingCapacity: true)
            depth -= 1
        }

        func append(_ piece: UnsafeBufferPointer<CChar>) {
            piece.withMemoryRebound(to: UInt8.self) { text.append(contentsOf: $0) }
        }

        func refuse(_ reason: String) {
            refusal = refusal ?? reason
            XML_StopParser(parser, XML_Bool(0))
        }
    }
}

/// An element's name while its parser is at it, without the prefix of a namespace.
struct S3XMLName {
    private let start: UnsafePointer<CChar>

    fileprivate init(_ name: UnsafePointer<CChar>) {
        var start = name
        var next = name
        while next.pointee != 0 {
            if next.pointee == CChar(UInt8(ascii: ":")) { start = next + 1 }
            next += 1
        }
        self.start = start
    }

    var text: String { String(cString: start) }

    static func == (name: S3XMLName, text: StaticString) -> Bool {
        var position = 0
        while position < text.utf8CodeUnitCount {
            // A shorter name differs at its closing zero.
            guard UInt8(bitPattern: name.start[position]) == text.utf8Start[position] else {
                return false
            }
            position += 1
        }
        return name.start[position] == 0
    }
}

/// What is made of a document while it is read.
///
/// A class, because the parser's functions know nothing of Swift's generic types.
class S3XMLVisitor {
    /// An element begins; the document's own is at depth 1.
    func open(_ name: S3XMLName, depth: Int) {}

    /// An element ends.
    ///
    /// - Returns: Why the document is refused, if it is.
    func close(_ name: S3XMLName, depth: Int, text: [UInt8]) -> String? { nil }
}
