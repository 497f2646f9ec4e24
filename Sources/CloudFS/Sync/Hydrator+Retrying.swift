import Logging

/// What becomes of a fetch that has failed.
extension Hydrator {
    /// How long a fetch that found something else waits for news of it: a folder may be large.
    private static let longestLook = Duration.seconds(15)

    /// Whether another try may do better than one that has failed.
    enum Chance {
        case none
        /// In a moment, if that is soon enough.
        case later
        /// The same bytes are had under another name or with other tokens by now: what was waited
        /// for until that was found does not count.
        case elsewhere
    }

    /// What is to be expected of another try.
    struct Outlook {
        var chance: Chance
        /// Whether somebody waits for the bytes; only asked where there is no room for them.
        var isAwaited = true
    }

    /// Why a fetch has not delivered all.
    struct FetchFailure {
        var error: CloudFSError
        /// Whether nobody waited for the rest when it was given up.
        var isUnwanted: Bool

        /// What the plan is told.
        func event(of request: HydrationPlan.RequestID) -> HydrationPlan.Event {
            switch error.code {
            case .remoteChanged, .notFound: .remoteChanged
            case let code where isUnwanted: .requestGivenUp(request, code)
            case let code: .requestFailed(request, code)
            }
        }
    }

    func chance(
        after error: CloudFSError,
        _ file: OpenFile,
        _ origin: Origin?
    ) async -> Chance {
        switch error.code {
        case .offline, .timedOut: return .later
        case .remoteChanged, .notFound: break
        default: return .none
        }
        guard let origin else { return .none }
        // The item was not where it was looked for because this machine is moving it, or a folder
        // above it, or writes its metadata; or has done so since.
        if origin.lineage.contains(where: { mutations.isActive($0.item) }) { return .later }
        do throws(CloudFSError) {
            if try await self.origin(of: file) != origin { return .elsewhere }
            // Or somebody else did, and the same bytes are there under another name or mode.
            await lookFor(file.id)
            return try await self.origin(of: file) != origin ? .elsewhere : .none
        } catch {
            logger.debug(
                "a file is gone",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
            return .none
        }
    }

    /// Waits until it is known what became of a file in the cloud, but not for long.
    private func lookFor(_ id: ItemID) async {
        let late = CloudFSError(.timedOut, "its folder was not listed in time", item: id)
        do {
            try await withDeadline(Self.longestLook, or: late) { await self.onNews(id, .mismatch) }
        } catch {
            logger.debug(
                "it is not known what became of a file",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }
}
