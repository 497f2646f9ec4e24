import CloudFSTestSupport
import Glibc
import Testing

extension TestDrive {
    /// Kills whoever serves the drive, and waits until another one does.
    func loseWorker() async throws {
        let before = takeovers
        let worker = try #require(mount.worker)
        #expect(kill(worker, SIGKILL) == 0)
        try await eventually("another worker serves", within: .seconds(20)) { takeovers > before }
    }

    private var takeovers: Int {
        mount.logText.matches(of: /has taken over the drive/).count
    }
}

extension ChildProcess {
    /// Whether it waits for something, as a call that is not answered.
    var isAsleep: Bool {
        // The state stands behind the name, which may have anything in it.
        let text = Shell.text(of: "/proc/\(pid)/stat")
        guard let name = text.lastIndex(of: ")") else { return false }
        let state = text[name...].split(separator: " ").dropFirst().first
        return state == "S" || state == "D"
    }
}
