import Glibc
import Testing

@testable import CloudFS

@Suite struct RunningProgramTests {
    @Test func `this process is known by its executable`() throws {
        let executable = try #require(RunningProgram.executable(of: getpid()))
        let program = try #require(
            RunningProgram(thread: getpid(), executable: executable)
        )
        #expect(executable.hasSuffix("/" + program.name))
    }

    @Test func `nobody is no program`() {
        #expect(RunningProgram.executable(of: 0) == nil)
        #expect(RunningProgram(thread: 0, executable: nil) == nil)
        #expect(RunningProgram(thread: .max, executable: nil) == nil)
    }

    @Test(arguments: [
        (["python3", "/usr/bin/duplicity", "full"], "duplicity"),
        (["/usr/bin/python3.13", "-I", "/opt/scan.py"], "scan.py"),
        (["python3", "-m", "borg", "create"], "borg"),
        (["bash", "-c", "cat file"], nil),
        (["perl", "-e", "1"], nil),
        (["bash"], nil),
        ([], nil),
        (["sh", "a\nb"], nil),
    ])
    func `a script is known by its own name`(words: [String], name: String?) {
        #expect(RunningProgram.script(in: words) == name)
    }

    @Test func `interpreters of any version are such, and nothing else is`() {
        for name in ["python3", "python3.13", "perl", "bash", "node"] {
            #expect(RunningProgram.isInterpreter(name), "\(name)")
        }
        for name in ["pythonista", "python3-config", "shotwell", "", "3", "cat"] {
            #expect(!RunningProgram.isInterpreter(name), "\(name)")
        }
    }

    @Test(arguments: [
        (
            "0::/user.slice/user-1.slice/app.slice/tracker-miner-fs-3.service\n",
            "tracker-miner-fs-3"
        ),
        ("1:name=systemd:/x\n0::/system.slice/plocate-updatedb.service\n", "plocate-updatedb"),
        ("0::/user.slice/app-org.gnome.Nautilus-17.scope\n", nil),
        ("0::/\n", nil),
        ("", nil),
    ])
    func `a service is the last part of its group`(text: String, name: String?) {
        #expect(RunningProgram.service(inGroups: text) == name)
    }
}
