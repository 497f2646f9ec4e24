import Testing

@testable import CloudFS

@Suite struct ContainerURLTests {
    @Test(arguments: [
        ("local:/srv/cloud", "/srv/cloud"), ("local:cloud", "/there/cloud"),
        ("local:./a/../b/", "/there/b"), ("local:///srv//cloud", "/srv/cloud"),
        ("local:~/Cloud", "/home/ann/Cloud"), ("local:/a:b", "/a:b"), ("local:/", "/"),
    ])
    func `a local URL names an absolute path`(text: String, path: String) throws {
        let url = try ContainerURL(text, base: "/there", home: "/home/ann")
        #expect(url == .local(path: path))
        #expect(url.description == "local:\(path)")
    }

    @Test(arguments: ["gopher://host/path", "webdav+https://host/x", "LOCAL:/x", ":x"])
    func `an unknown kind is told the known ones`(text: String) {
        let message = sentence { _ = try ContainerURL(text, base: "/", home: nil) }
        #expect(message.contains("local:/path"))
        #expect(message.contains("no kind of container"))
    }

    @Test(arguments: [
        ("s3://bucket", "bucket", ""), ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b/", "bucket", "a/b"), ("s3://bucket//a//b", "bucket", "a/b"),
        ("s3://bucket/ä b", "bucket", "ä b"),
    ])
    func `a bucket's URL has one spelling`(text: String, bucket: String, prefix: String) throws {
        let url = try ContainerURL(text, base: "/", home: nil)
        #expect(url == .s3(bucket: bucket, prefix: prefix))
        #expect(try ContainerURL(url.description, base: "/", home: nil) == url)
    }

    @Test(arguments: ["s3:bucket", "s3://", "s3:///x", "s3://key:secret@bucket", "s3://b/../x"])
    func `what is no bucket, or holds a secret, is refused`(text: String) {
        let message = sentence { _ = try ContainerURL(text, base: "/", home: nil) }
        #expect(message != "")
        #expect(!message.contains("secret@"))
    }

    @Test func `a bare path is told what to write`() {
        let message = sentence { _ = try ContainerURL("/srv/cloud", base: "/", home: nil) }
        #expect(message.contains("local:/srv/cloud"))
        #expect(sentence { _ = try ContainerURL("local:", base: "/", home: nil) } != "")
        #expect(sentence { _ = try ContainerURL("cloud", base: "/", home: nil) } != "")
    }
}
