import NIOCore

/// A piece of a file's content on its way from a provider, in the memory that it came in.
public struct ContentPiece: Sendable {
    private var buffer: ByteBuffer

    init(_ buffer: ByteBuffer) {
        self.buffer = buffer
    }

    public init(_ bytes: some Sequence<UInt8>) {
        buffer = ByteBuffer(bytes: bytes)
    }

    /// Bytes.
    public var count: Int { buffer.readableBytes }

    /// A copy.
    public var bytes: [UInt8] { Array(buffer.readableBytesView) }

    /// Takes off up to so many bytes from the beginning; `nil` if there are none left.
    mutating func takeFirst(_ count: Int) -> ContentPiece? {
        guard buffer.readableBytes > 0 else { return nil }
        return buffer.readSlice(length: min(count, buffer.readableBytes)).map { ContentPiece($0) }
    }

    func withBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let outcome = buffer.withUnsafeReadableBytes { bytes in
            Result { () throws(Failure) in try body(bytes) }
        }
        return try outcome.get()
    }
}
