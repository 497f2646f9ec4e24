import Testing

@testable import CloudFS

@Suite struct OptionListTests {
    private typealias OptionList = MountConfiguration.OptionList

    @Test func `what belongs to mount, fstab and systemd is dropped`() throws {
        let list = try OptionList(
            "_netdev,noauto,auto,nofail,user,users,owner,nosuid,nodev,relatime,noatime,"
                + "defaults,x-systemd.automount,X-mount.mkdir=0755,comment=a=b,,exec",
            isSloppy: false
        )
        #expect(list.settings.isEmpty && list.passedOn.isEmpty && list.config == nil)
    }

    @Test func `what the kernel must know is passed on`() throws {
        let list = try OptionList("allow_other,noexec,ro", isSloppy: false)
        #expect(list.passedOn == ["allow_other", "noexec"])
        #expect(list.settings.map(\.option) == [.readOnly])
        #expect(list.settings.map(\.text) == ["true"])
    }

    @Test func `a value may hold an escaped comma and equals signs`() throws {
        let list = try OptionList(#"device-name=a\,b=c,config=/etc/d.toml"#, isSloppy: false)
        #expect(list.settings.map(\.text) == ["a,b=c"])
        #expect(list.config == "/etc/d.toml")
    }

    @Test(arguments: [
        ("cach-size=1", "did you mean cache-size?"), ("alow_other", "did you mean allow_other?"),
        ("zzzzzzzz", "--help"), ("cache-size", "needs a value"), ("suid", "nosuid"),
        ("dev", "nodev"), ("remount", "unmount it"),
    ])
    func `an unknown or impossible option gets one sentence`(text: String, part: String) {
        let message = sentence { _ = try OptionList("ro,\(text)", isSloppy: false) }
        #expect(message.contains(part))
        #expect(sentence { _ = try OptionList("ro,\(text)", isSloppy: true) } == "")
    }
}
