import CloudFSControlAPI
public import Foundation
import Glibc
import Synchronization

/// A document that one program edits while others, here and elsewhere, use it too, as `UIDocument`.
///
/// It reads and writes by coordinated access, saves by itself after edits and before others read,
/// and follows its file when that is moved or changed. A save replaces the file in one step:
/// nobody sees half of it, and a crash leaves the old version or the new one.
public actor Document<Content: DocumentContent>: FilePresenter {
    /// What is edited.
    public private(set) var content = Content()
    public private(set) var state: DocumentState = .closed {
        didSet { if state != oldValue { inbox.yield(state) } }
    }
    /// The state, whenever it has changed, and whenever `content` was read anew; for one listener.
    public nonisolated let news: AsyncStream<DocumentState>
    /// Whether something was edited since the last save.
    public private(set) var hasUnsavedChanges = false

    private let autosaveDelay: Duration
    /// How it is a package; `nil` for a document that is one file.
    private let package: PackageForm<Content>?
    private let place: Mutex<URL>
    private let inbox: AsyncStream<DocumentState>.Continuation
    /// The version of the file that `content` began as, or was saved as.
    private var known: FileIdentity?
    /// What that version held, of a package.
    private var knownFiles: [String: Data] = [:]
    private var autosave: Task<Void, Never>?
    /// Saves come one after the other.
    private var saving: Task<Void, any Error>?

    /// A document that is not opened yet.
    ///
    /// - Parameters:
    ///   - fileURL: Where its file is, or will be.
    ///   - autosaveDelay: How long after the first edit it is saved.
    public init(fileURL: URL, autosaveDelay: Duration = .seconds(2)) {
        self.init(fileURL, package: nil, autosaveDelay)
    }

    private init(_ url: URL, package: PackageForm<Content>?, _ autosaveDelay: Duration) {
        place = Mutex(url)
        self.package = package
        self.autosaveDelay = autosaveDelay
        (news, inbox) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// Where the file is now.
    public nonisolated var presentedItemURL: URL { place.withLock { $0 } }

    private var coordinator: FileCoordinator { FileCoordinator(filePresenter: self) }

    /// How much of the file is on this machine, from 0 to 1.
    ///
    /// For the time that `open` takes (`progressAvailable`), and for files that are not open.
    /// - Throws: `DriveClientError`.
    public func progress() async throws -> Double {
        let path = presentedItemURL.path(percentEncoded: false)
        let place = try DriveLocator.current().location(of: path)
        let status = try await DriveClient(place.drive).downloadProgress([place.path]).first
        guard let status, status.bytes > 0 else { return 1 }
        return min(1, Double(status.localBytes) / Double(status.bytes))
    }

    // MARK: - Opening and closing

    /// Brings the file here, reads it, and begins to follow it.
    ///
    /// - Throws: `DriveClientError`; what `Content` throws.
    public func open() async throws {
        state = [.closed, .progressAvailable]
        do {
            try await coordinator.coordinate(readingItemAt: presentedItemURL) { url in
                try read(url)
                // While nobody writes it, nothing is missed between reading and listening.
                try await FileCoordinator.addFilePresenter(self)
            }
            state = .normal
        } catch {
            state = .closed
            throw error
        }
    }

    /// Makes the file, with what `content` holds, and begins to follow it.
    ///
    /// - Throws: `DriveClientError`; `changedElsewhere` if there is a file already.
    public func create() async throws {
        try await coordinator.coordinate(writingItemAt: presentedItemURL) { url in
            guard FileIdentity(url) == nil else { throw DocumentError.changedElsewhere(url) }
            try write(to: url)
            try await FileCoordinator.addFilePresenter(self)
        }
        state = .normal
    }

    /// Saves what is not saved, and lets go of the file.
    public func close() async throws {
        if hasUnsavedChanges { try await save() }
        FileCoordinator.removeFilePresenter(self)
        autosave?.cancel()
        state = .closed
    }

    // MARK: - Editing

    /// Changes the content; it is saved after a while.
    ///
    /// - Throws: `closed`, `editingDisabled`; what `change` throws.
    public func edit(_ change: @Sendable (inout Content) throws -> Void) throws {
        guard !state.contains(.closed) else { throw DocumentError.closed(presentedItemURL) }
        guard !state.contains(.editingDisabled) else {
            throw DocumentError.editingDisabled(presentedItemURL)
        }
        try change(&content)
        hasUnsavedChanges = true
        guard autosave == nil else { return }
        autosave = Task { [autosaveDelay, weak self] in
            // Cancelled when it is saved for another reason.
            guard (try? await Task.sleep(for: autosaveDelay)) != nil else { return }
            await self?.saveByItself()
        }
    }

    private func saveByItself() async {
        autosave = nil
        guard hasUnsavedChanges else { return }
        // The state tells of the failure, and the next edit has it tried again.
        try? await save()
    }

    /// Writes the content to the file, if it is the version that was read.
    ///
    /// - Parameter overwriting: Whether to write over what others have saved meanwhile.
    /// - Throws: `closed`, `changedElsewhere`, `DriveClientError`, errors of the disk; the state is
    ///   then `savingError`, and nothing is lost.
    public func save(overwriting: Bool = false) async throws {
        guard !state.contains(.closed) else { throw DocumentError.closed(presentedItemURL) }
        let earlier = saving
        let task = Task {
            // Whether that one worked is told to whoever asked for it.
            _ = await earlier?.result
            try await self.saveNow(overwriting)
        }
        saving = task
        try await task.value
    }

    private func saveNow(_ overwriting: Bool) async throws {
        autosave?.cancel()
        autosave = nil
        do {
            try await coordinator.coordinate(writingItemAt: presentedItemURL) { url in
                guard overwriting || FileIdentity(url) == known else {
                    throw DocumentError.changedElsewhere(url)
                }
                try write(to: url)
            }
            state.remove(.savingError)
            await settleConflict()
        } catch {
            state.insert(.savingError)
            if case DocumentError.changedElsewhere = error { state.insert(.inConflict) }
            throw error
        }
    }

    /// Gives up what was edited, and takes over what the file holds.
    public func revert() async throws {
        try await coordinator.coordinate(readingItemAt: presentedItemURL) { try read($0) }
        state.remove(.savingError)
        await settleConflict()
    }

    // MARK: - Moving and deleting

    public func move(to target: URL) async throws {
        if hasUnsavedChanges { try await save() }
        try await coordinator.coordinate(
            with: [
                .writing(presentedItemURL, option: .forMoving),
                .writing(target, option: .forReplacing),
            ]
        ) { intents in
            let (from, to) = (intents[0].url, intents[1].url)
            guard rename(from.path(percentEncoded: false), to.path(percentEncoded: false)) == 0
            else { throw SystemFailure(to) }
            place.withLock { $0 = to }
            known = FileIdentity(to)
        }
    }

    /// Deletes the file and closes the document.
    public func delete() async throws {
        autosave?.cancel()
        try await coordinator.coordinate(
            writingItemAt: presentedItemURL,
            option: .forDeleting
        ) { url in
            guard package == nil else { return try FileManager.default.removeItem(at: url) }
            guard unlink(url.path(percentEncoded: false)) == 0 else { throw SystemFailure(url) }
        }
        // Until then it is open, and hears of others.
        FileCoordinator.removeFilePresenter(self)
        state = .closed
    }

    // MARK: - The file

    private func read(_ url: URL) throws {
        if let package {
            let files = try PackageFolder.files(of: url)
            content = try package.content(files)
            knownFiles = files
        } else {
            content = try Content(contents: try Data(contentsOf: url))
        }
        hasUnsavedChanges = false
        known = FileIdentity(url)
        inbox.yield(state)
    }

    private func write(to url: URL) throws {
        if let package {
            let files = try package.files(content)
            // What others have saved meanwhile is not what is known of it.
            let kept = FileIdentity(url) == known ? knownFiles : [:]
            let attributes = content.attributes()
            try PackageFolder.replace(url, with: files, knowing: kept, attributes: attributes)
            knownFiles = files
        } else {
            try AtomicFile.replace(
                url,
                with: try content.contents(),
                attributes: content.attributes()
            )
        }
        // In the same claim: whoever reads next sees both. It may be a drive without thumbnails,
        // or no drive: the document is saved all the same.
        if let picture = content.thumbnail() {
            _ = ExtendedAttribute.set(
                "user.cloudfs.thumbnail",
                to: picture,
                of: url.path(percentEncoded: false)
            )
        }
        hasUnsavedChanges = false
        known = FileIdentity(url)
    }

    // MARK: - What others do

    public func relinquishPresentedItem(to access: FileAccess) async throws {
        state.insert(.editingDisabled)
        // What is not in the file by then would be lost to the writer.
        if access == .writing, hasUnsavedChanges { try await save() }
    }

    public func reacquirePresentedItem() async {
        state.remove(.editingDisabled)
        await takeOverChanges()
    }

    public func savePresentedItemChanges() async throws {
        if hasUnsavedChanges { try await save() }
    }

    public func presentedItemDidChange() async { await takeOverChanges() }

    // What is in a package is the document, too.
    public func presentedSubitemDidAppear(at url: URL) async { await takeOverChanges() }
    public func presentedSubitemDidChange(at url: URL) async { await takeOverChanges() }
    public func presentedSubitemDidMove(to url: URL) async { await takeOverChanges() }
    public func presentedSubitemWasDeleted() async { await takeOverChanges() }

    public func presentedItemDidMove(to url: URL) async {
        place.withLock { $0 = url }
        await takeOverChanges()
    }

    public func presentedItemWasDeleted() async {
        // What is not saved can still be saved, as a new file.
        guard !hasUnsavedChanges else { return state.formUnion([.inConflict]) }
        FileCoordinator.removeFilePresenter(self)
        state = .closed
    }

    public func presentedItemDidGainVersion(at url: URL) async { state.insert(.inConflict) }

    public func presentedItemDidResolveVersion() async { await settleConflict() }

    /// Ends the conflict if the file is what was read or written last, and no version is left.
    private func settleConflict() async {
        let url = presentedItemURL
        guard state.contains(.inConflict), FileIdentity(url) == known else { return }
        // If nobody can tell, there may be some.
        let left = try? await FileVersion.unresolvedConflictVersionsOfItem(at: url)
        if left?.isEmpty == true { state.remove(.inConflict) }
    }

    /// Reads the file again, if it is another version and nothing here is unsaved.
    private func takeOverChanges() async {
        guard !state.contains(.closed), FileIdentity(presentedItemURL) != known else { return }
        guard !hasUnsavedChanges else { return state.formUnion([.inConflict]) }
        // A file that cannot be read now is read with its next change; edits then find out.
        try? await coordinator.coordinate(readingItemAt: presentedItemURL) { url in
            // Asked again after the wait: what was edited meanwhile stays.
            guard !hasUnsavedChanges else { return state.formUnion([.inConflict]) }
            try read(url)
            state.remove(.savingError)
        }
        await settleConflict()
    }
}

extension Document where Content: PackageContent {
    /// A document that is a folder of files, not opened yet.
    ///
    /// A save makes the folder anew beside the old one and exchanges the two: files that have not
    /// changed are not written again, and nobody sees half of it.
    ///
    /// - Parameters:
    ///   - packageURL: Where its folder is, or will be; in a drive with the name of a package.
    ///   - autosaveDelay: How long after the first edit it is saved.
    public init(packageURL: URL, autosaveDelay: Duration = .seconds(2)) {
        let form = PackageForm<Content>(
            content: { try Content(files: $0) },
            files: { try $0.files() }
        )
        self.init(packageURL, package: form, autosaveDelay)
    }
}
