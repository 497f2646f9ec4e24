public import Foundation

/// Who uses an item next.
public enum FileAccess: Sendable, Hashable {
    case reading
    case writing
}

/// A program that shows an item, and works with others who use it, as `NSFilePresenter`.
///
/// Add it with `FileCoordinator.addFilePresenter`. Every question has an end: one that takes longer
/// than 5 seconds is passed over. What is asked and told comes one after the other, in order.
public protocol FilePresenter: AnyObject, Sendable {
    /// The presented item; asked when the presenter is added, and when its drive has a new daemon.
    ///
    /// A program is not told of what it moves itself: from then on this has to be the new place.
    var presentedItemURL: URL { get }

    /// Others are about to use the item: let go of it until `reacquirePresentedItem`.
    func relinquishPresentedItem(to access: FileAccess) async throws

    /// Who was let in is done.
    func reacquirePresentedItem() async

    /// Others are about to read the item: write what only this program knows.
    func savePresentedItemChanges() async throws

    /// The item is about to be deleted or replaced.
    func accommodatePresentedItemDeletion() async throws

    /// An item in the presented folder is about to be deleted or replaced.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws

    /// Content was changed by others; perhaps only its time.
    func presentedItemDidChange() async

    func presentedItemDidMove(to url: URL) async

    func presentedItemWasDeleted() async

    /// State, times or attributes changed.
    func presentedItemDidChangeUbiquityAttributes() async

    /// Somebody else changed the item at the same time: the version that lost is at `url`.
    func presentedItemDidGainVersion(at url: URL) async

    func presentedItemDidResolveVersion() async

    func presentedSubitemDidAppear(at url: URL) async

    func presentedSubitemDidChange(at url: URL) async

    func presentedSubitemDidMove(to url: URL) async

    func presentedSubitemWasDeleted() async
}

extension FilePresenter {
    public func relinquishPresentedItem(to access: FileAccess) async throws {}
    public func reacquirePresentedItem() async {}
    public func savePresentedItemChanges() async throws {}
    public func accommodatePresentedItemDeletion() async throws {}
    public func accommodatePresentedSubitemDeletion(at url: URL) async throws {}
    public func presentedItemDidChange() async {}
    public func presentedItemDidMove(to url: URL) async {}
    public func presentedItemWasDeleted() async {}
    public func presentedItemDidChangeUbiquityAttributes() async {}
    public func presentedItemDidGainVersion(at url: URL) async {}
    public func presentedItemDidResolveVersion() async {}
    public func presentedSubitemDidAppear(at url: URL) async {}
    public func presentedSubitemDidChange(at url: URL) async {}
    public func presentedSubitemDidMove(to url: URL) async {}
    public func presentedSubitemWasDeleted() async {}
}
