import Foundation

/// A thread for what blocks for as long as it lives.
package enum OwnThread {
    /// - Parameter name: Shown by tools; at most 15 bytes.
    package static func start(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let thread = Thread(block: body)
        thread.name = name
        thread.start()
    }
}
