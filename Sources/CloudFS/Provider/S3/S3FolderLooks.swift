import Synchronization

/// Finds out whether the names of new files are free of folders, together for those that come
/// into one folder shortly after each other: one LIST then tells it for all.
final class S3FolderLooks: Sendable {
    /// What stands at the beginning of all keys in a folder.
    typealias FolderKey = [UInt8]

    private struct Look: Sendable {
        var begun: Duration
        /// `nil` if one page does not hold them all.
        var folders: Set<FolderKey>?
    }

    private struct State {
        /// When a name in a folder was last asked for, by that folder.
        var asked: [FolderKey: Duration] = [:]
        var looks: [FolderKey: Look] = [:]
    }

    private let client: S3Client
    private let state = Mutex(State())
    private let flights = SingleFlight<FolderKey, Look>()

    /// How old an answer may be: what another device made in that time is found by the next
    /// listing, as what it makes while the file is being sent.
    private static let trusted = Duration.seconds(1)
    /// How many folders are remembered, each with up to 1,000 keys; beyond it, all are forgotten.
    private static let mostFolders = 64

    init(client: S3Client) {
        self.client = client
    }

    /// Whether it is known that there was no folder of this key a moment ago.
    ///
    /// - Parameter parent: The folder that it would be in.
    /// - Returns: `false` also where nothing is known, and it has to be asked for.
    func isFree(_ folder: FolderKey, in parent: FolderKey) async throws(CloudFSError) -> Bool {
        let now = client.clocks.elapsed()
        let (look, isBusy) = state.withLock { state in
            if state.asked.count >= Self.mostFolders { state = State() }
            let last = state.asked.updateValue(now, forKey: parent)
            return (state.looks[parent], last.map { now - $0 < Self.trusted } ?? false)
        }
        if let look, now - look.begun < Self.trusted { return Self.isFree(folder, look) }
        // For one file alone, its name alone is asked for.
        guard isBusy else { return false }
        do {
            return Self.isFree(
                folder,
                try await flights.value(for: parent) { try await self.look(parent) }
            )
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.cancelled, "the look at a folder was given up", cause: error)
        }
    }

    private static func isFree(_ folder: FolderKey, _ look: Look) -> Bool {
        look.folders.map { !$0.contains(folder) } ?? false
    }

    private func look(_ parent: FolderKey) async throws(CloudFSError) -> Look {
        let begun = client.clocks.elapsed()
        let page = try await client.list(prefix: parent, delimiter: true, mayLackKeys: true)
        let isWhole = page.next == nil && page.undecoded.isEmpty
        let look = Look(begun: begun, folders: isWhole ? Set(page.prefixes) : nil)
        state.withLock { $0.looks[parent] = look }
        return look
    }
}
