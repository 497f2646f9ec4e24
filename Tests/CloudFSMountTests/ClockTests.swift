import CloudFSTestSupport
import Foundation
import Testing

/// The system's clock is set while a drive is mounted.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct ClockTests {
    /// A library that adds what a file says to the time of day.
    private static let library = """
        #include <fcntl.h>
        #include <stdint.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>

        static const volatile int64_t *seconds;

        __attribute__((constructor)) static void begin(void) {
            const char *path = getenv("CLOCK_SECONDS");
            int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (file < 0) return;
            void *page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
            close(file);
            if (page != MAP_FAILED) seconds = page;
        }

        int clock_gettime(clockid_t clock, struct timespec *now) {
            int result = (int)syscall(SYS_clock_gettime, clock, now);
            int is_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
            if (result == 0 && seconds && is_day) now->tv_sec += *seconds;
            return result;
        }

        int gettimeofday(struct timeval *now, void *zone) {
            struct timespec time;
            if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
            now->tv_sec = time.tv_sec;
            now->tv_usec = time.tv_nsec / 1000;
            return 0;
        }

        time_t time(time_t *result) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (result) *result = now.tv_sec;
            return now.tv_sec;
        }
        """

    /// Lends a drive with a clock that `set` moves from the system's by so many days.
    private static func withClock(
        _ body: (TestDrive, _ set: (Int64) throws -> Void) async throws -> Void
    ) async throws {
        let place = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        let folder = try TestFolder.make(place.path)
        defer { _ = try? FileManager.default.removeItem(at: place) }
        try folder.write("clock.c", library)
        try folder.write("seconds", [UInt8](repeating: 0, count: 8))
        let made = try await Shell.script(
            "cd \(folder.path) && cc -shared -fPIC -O2 -o clock.so clock.c"
        )
        try #require(made.status == 0, "\(made)")
        var options = TestMount.Options()
        options.environment = [
            "LD_PRELOAD": "\(folder.path)/clock.so", "CLOCK_SECONDS": "\(folder.path)/seconds",
        ]
        try await TestDrive.with(options: options) { drive in
            try await body(drive) { days in
                let file = try FileHandle(forWritingTo: URL(filePath: "\(folder.path)/seconds"))
                try withUnsafeBytes(of: days * 86_400) { try file.write(contentsOf: $0) }
                try file.close()
            }
        }
    }

    @Test func `what is changed while the clock is set is sent, whichever way it goes`()
        async throws
    {
        try await Self.withClock { drive, set in
            try await drive.run("echo first > edited; echo first > moved")
            try await drive.drain()
            for (step, days) in [Int64(-400), 800, -1, 0].enumerated() {
                try set(days)
                try await drive.run(
                    """
                    echo \(step) > new\(step); echo \(step) >> edited
                    mv moved moved.next; mv moved.next moved; touch moved
                    """
                )
                try drive.cloud.write("brought\(step)", "\(step)")
                try await drive.drain()
                #expect(drive.cloud.text("new\(step)") == "\(step)\n")
                #expect(drive.cloud.text("edited")?.hasSuffix("\(step)\n") == true)
                try await eventually("what the cloud has got is there") {
                    try await drive.exists("brought\(step)")
                }
                #expect(try await drive.text("brought\(step)") == "\(step)")
            }
            try await drive.mustDo(["check", drive.path])
            #expect(drive.cloud.text("edited") == "first\n0\n1\n2\n3\n")
        }
    }

    @Test func `a file of now is sent also where one of the future was sent before`()
        async throws
    {
        try await Self.withClock { drive, set in
            try set(3_650)
            try await drive.run("echo future > file")
            try await drive.drain()
            try set(0)
            try await drive.run("echo now >> file")
            try await drive.drain()
            #expect(drive.cloud.text("file") == "future\nnow\n")
            try await drive.run("echo later > other; mv other file")
            try await drive.drain()
            #expect(drive.cloud.text("file") == "later\n")
        }
    }
}
