/// What a user enters to prove to a provider who asks.
///
/// Its description and its mirror hide both, so that no log or crash report shows them.
public struct ProviderLogin: Sendable, Equatable {
    /// The access key, or whatever names the account.
    public var name: String
    public var secret: String

    public init(name: String, secret: String) {
        self.name = name
        self.secret = secret
    }
}

extension ProviderLogin: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "a login" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
