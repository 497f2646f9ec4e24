import AsyncHTTPClient
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Turns the failures of the HTTP client into those of CloudFS, naming the host.
struct HTTPErrors: Sendable {
    let host: String
    private let meter: HTTPMeter

    /// What connecting fails with, and nothing after it.
    private static let unreachable: Set<CInt> = [
        ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN, EADDRNOTAVAIL,
    ]

    init(url: String, meter: HTTPMeter) {
        let parts = url.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        host = parts.count > 2 ? String(parts[2].prefix { $0 != "/" && $0 != "?" }) : url
        self.meter = meter
    }

    /// The connection broke in the middle.
    func broken(_ reason: String) -> CloudFSError {
        CloudFSError(
            .offline,
            "the connection to \(host) broke: \(reason)",
            cause: HTTPFailure.broken(reason)
        )
    }

    func error(for error: any Error) -> CloudFSError {
        if meter.hasExpired {
            return CloudFSError(
                .timedOut,
                "\(host) does not answer in time",
                cause: HTTPFailure.tooSlow
            )
        }
        switch error {
        case let error as CloudFSError:
            return error
        case is CancellationError:
            return CloudFSError(.cancelled, "the request to \(host) was given up")
        case let error as HTTPClientError:
            return self.error(for: error)
        case is NIOConnectionError:
            return notConnected(String(describing: error))
        case let error as IOError where Self.unreachable.contains(error.errnoCode):
            return notConnected(String(describing: error))
        case NIOSSLError.handshakeFailed, is NIOSSLExtraError:
            return notTrusted(error)
        // Later than that the server may have heard the request.
        case HTTPParserError.invalidEOFState:
            return broken("it ended in the middle of an answer")
        case is HTTPParserError:
            let reason = String(describing: error)
            return CloudFSError(
                .corrupt,
                "what \(host) sends is not HTTP; check the endpoint and its port",
                cause: HTTPFailure.notHTTP(reason)
            )
        default:
            return broken(String(describing: error))
        }
    }

    private func error(for error: HTTPClientError) -> CloudFSError {
        switch error {
        case .cancelled, .requestStreamCancelled:
            CloudFSError(.cancelled, "the request to \(host) was given up")
        case .connectTimeout, .getConnectionFromPoolTimeout:
            notConnected("it does not answer")
        case .tlsHandshakeTimeout:
            notConnected("it does not answer in TLS; check the endpoint and its port")
        case .alreadyShutdown:
            CloudFSError(.cancelled, "the connection to \(host) was ended")
        case .invalidURL, .emptyHost, .emptyScheme, .missingSocketPath:
            CloudFSError(.invalidArgument, "\(host) is no address of a server", cause: error)
        default:
            refusedByClient(error) ?? broken(String(describing: error))
        }
    }

    /// Requests that were never sent because they cannot be.
    private func refusedByClient(_ error: HTTPClientError) -> CloudFSError? {
        let text = String(describing: error)
        guard
            text.contains("invalidHeaderFieldNames") || text.contains("invalidHeaderFieldValues")
                || text.contains("unsupportedScheme") || text.contains("bodyLengthMismatch")
        else { return nil }
        return CloudFSError(
            .invalidArgument,
            "a request to \(host) holds what HTTP cannot carry",
            cause: error
        )
    }

    private func notConnected(_ reason: String) -> CloudFSError {
        CloudFSError(
            .offline,
            "\(host) cannot be reached; check the endpoint and the network",
            cause: HTTPFailure.notConnected(reason)
        )
    }

    private func notTrusted(_ error: any Error) -> CloudFSError {
        let reason = String(describing: error)
        return CloudFSError(
            .offline,
            "no secure connection to \(host): its certificate is not trusted, or it does not "
                + "speak TLS; name a certificate of its own with the option ca-file",
            cause: HTTPFailure.notConnected(reason)
        )
    }
}
