import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

@Suite struct InotifyWatchesTests {
    @Test func `devices are numbered as the kernel does`() {
        #expect(InotifyWatches.number(of: "0:57") == 0x39)
        #expect(InotifyWatches.number(of: "8:1") == 0x80_0001)
        for text in ["", "8", "8:", "8:x", "4096:0", "0:1048576", "1:2:3"] {
            #expect(InotifyWatches.number(of: text) == nil, "\(text)")
        }
    }

    @Test func `watches of one device are found`() {
        let text = """
            pos:\t0
            flags:\t02004000
            mnt_id:\t15
            ino:\t1
            inotify wd:3 ino:9e7e sdev:39 mask:800afce ignored_mask:0 fhandle-bytes:8
            inotify wd:2 ino:a sdev:800013 mask:800afce ignored_mask:0
            inotify wd:1 ino: sdev:39 mask:3
            fanotify ino:b sdev:39 mask:3
            inotify wd:4 ino:1 sdev:39
            """
        #expect(InotifyWatches.inodes(in: text, onDevice: 0x39) == [0x9e7e, 1])
        #expect(InotifyWatches.inodes(in: text, onDevice: 0x40).isEmpty)
    }

    @Test func `what this process watches is found`() throws {
        let directory = try TemporaryDirectory()
        let watcher = inotify_init1(Int32(IN_CLOEXEC))
        defer { close(watcher) }
        var status = stat()
        #expect(stat(directory.path, &status) == 0)
        let device = "\(status.st_dev >> 8 & 0xfff):\(status.st_dev & 0xff)"
        let inode = UInt64(status.st_ino)
        #expect(!InotifyWatches.inodes(onDevice: device).contains(inode))
        #expect(inotify_add_watch(watcher, directory.path, UInt32(IN_CREATE)) >= 0)
        #expect(InotifyWatches.inodes(onDevice: device).contains(inode))
    }
}
