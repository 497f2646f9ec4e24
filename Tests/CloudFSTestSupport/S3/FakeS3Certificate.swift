import Foundation
import NIOSSL

/// A certificate for 127.0.0.1 that nobody has signed but itself, made for one test.
public struct FakeS3Certificate: Sendable {
    /// The certificate in PEM form.
    public let path: String
    private let keyPath: String

    /// Whether `openssl` is installed, which makes it.
    public static let canBeMade = ["/usr/bin", "/usr/local/bin", "/bin"].contains {
        FileManager.default.isExecutableFile(atPath: "\($0)/openssl")
    }

    /// - Parameter directory: Where its files are written.
    public init(in directory: TemporaryDirectory) async throws {
        path = directory.path("certificate.pem")
        keyPath = directory.path("key.pem")
        let result = try await Shell.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=CloudFS tests", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", keyPath, "-out", path,
        ])
        guard result.status == 0 else { throw DeadlineError("openssl: \(result.errors)", .zero) }
    }

    func configuration() throws -> TLSConfiguration {
        TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(path).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: keyPath, format: .pem))
        )
    }
}
