import Dispatch
import Foundation
import Logging
import Synchronization

/// Has the kernel ask again for every name that there is, of what an earlier worker told it.
///
/// What that one changed last it may not have told the kernel any more. A name that is asked for
/// again costs one lookup, and no program notices. Names that are gone are not in the catalog: of
/// these the kernel may go on telling for a day.
///
/// Two threads: one reads the catalog; the other has nothing but the way to the kernel, which may
/// hold it behind an unanswered request (see `FuseSession.keepOnlyDevice`).
final class NameExpiry: Sendable {
    private static let pageSize = 1024

    private let catalog: Catalog
    private let kernel: KernelProtocol
    private let device: Int32
    private let logger: Logger
    /// The names to be told next; empty at the end.
    private let page = Mutex<[NameRecord]>([])
    private let isFull = DispatchSemaphore(value: 0)
    private let isEmpty = DispatchSemaphore(value: 0)

    init(catalog: Catalog, kernel: KernelProtocol, device: Int32, logger: Logger) {
        self.catalog = catalog
        self.kernel = kernel
        self.device = device
        self.logger = logger
    }

    /// - Parameter prepare: Called first on the thread that tells the kernel.
    func start(_ prepare: @escaping @Sendable () -> Void) {
        OwnThread.start("cloudfs-names") { [self] in read() }
        OwnThread.start("cloudfs-expire") { [self] in
            prepare()
            tell()
        }
    }

    private func read() {
        var position: Int64 = 0
        do throws(CloudFSError) {
            while true {
                let names = try catalog.read { [position] reader in
                    try reader.names(after: position, limit: Self.pageSize)
                }
                guard let last = names.last else { break }
                hand(names.map(\.name))
                position = last.position
            }
        } catch {
            logger.warning("The kernel may show names that are old: \(error)")
        }
        hand([])
    }

    private func hand(_ names: [NameRecord]) {
        page.withLock { $0 = names }
        isFull.signal()
        if !names.isEmpty { isEmpty.wait() }
    }

    private func tell() {
        while true {
            isFull.wait()
            let names = page.withLock { $0 }
            guard !names.isEmpty else { return }
            for name in names { kernel.expire(name.name, in: name.parent, at: device) }
            isEmpty.signal()
        }
    }
}
