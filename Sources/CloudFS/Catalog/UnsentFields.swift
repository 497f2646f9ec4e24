/// Which fields of an item were set here and are not in the cloud yet, beside its attributes.
///
/// What is sent replaces all that the cloud has of an item, but what another device has set of the
/// other fields is to stay.
struct UnsentFields: OptionSet, Sendable, Equatable {
    let rawValue: Int

    static let permissions = UnsentFields(rawValue: 1 << 0)
    static let modified = UnsentFields(rawValue: 1 << 1)
    static let owner = UnsentFields(rawValue: 1 << 2)
    static let all: UnsentFields = [.permissions, .modified, .owner]
}
