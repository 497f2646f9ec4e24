import CloudFSTestSupport
import Testing

/// AWS's own client for Python judges whether `FakeS3Server` speaks S3.
@Suite struct FakeS3BotoTests {
    /// Fails with a message and a status other than 0 where the server is wrong.
    private static let script = """
        import os, sys
        import boto3
        from botocore.config import Config
        from botocore.exceptions import ClientError

        s3 = boto3.client(
            "s3", endpoint_url=sys.argv[1], region_name="us-east-1",
            aws_access_key_id="key", aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
        bucket = {"Bucket": "bucket"}

        def code(function, **arguments):
            try:
                function(**bucket, **arguments)
            except ClientError as error:
                return error.response["Error"]["Code"]

        keys = ["a b", "a+b", "a%b", "a//b", "../x", "~", "*", "(p)", "tab\\there", "\\U0001f600",
                "q?x=1&y", "#", "&amp;<>'", "n\\nl", "x" * 1024, "end/", "%41", " lead", "a/b/c"]
        for key in keys:
            s3.put_object(**bucket, Key=key, Body=key.encode(), Metadata={"mode": "33188"})
        for key in keys:
            got = s3.get_object(**bucket, Key=key)
            assert got["Body"].read() == key.encode(), key
            assert got["Metadata"] == {"mode": "33188"}, key
        for size in (1, 3, 1000):
            for list in ("list_objects", "list_objects_v2"):
                pages = s3.get_paginator(list).paginate(
                    **bucket, PaginationConfig={"PageSize": size})
                found = [item["Key"] for page in pages for item in page.get("Contents", [])]
                assert found == sorted(keys, key=str.encode), (size, list, found)
        copy = s3.copy_object(**bucket, Key="copy", CopySource={**bucket, "Key": "\\U0001f600"})
        assert s3.head_object(**bucket, Key="copy")["ETag"] == copy["CopyObjectResult"]["ETag"]
        assert code(s3.put_object, Key="copy", IfNoneMatch="*") == "PreconditionFailed"
        assert code(s3.get_object, Key="none") == "NoSuchKey"
        assert code(s3.get_object, Key="copy", Range="bytes=99-") == "InvalidRange"

        data = os.urandom(5 << 20)
        made = s3.create_multipart_upload(**bucket, Key="parts")
        upload = {**bucket, "Key": "parts", "UploadId": made["UploadId"]}
        parts = [{"PartNumber": number, "ETag": s3.upload_part(
            **upload, PartNumber=number, Body=body)["ETag"]}
            for number, body in ((1, data), (3, b"end"))]
        assert [part["Size"] for part in s3.list_parts(**upload)["Parts"]] == [5 << 20, 3]
        assert len(s3.list_multipart_uploads(**bucket)["Uploads"]) == 1
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert s3.get_object(**bucket, Key="parts")["Body"].read() == data + b"end"

        objects = [{"Key": key} for key in keys]
        gone = s3.delete_objects(**bucket, Delete={"Objects": objects})
        assert len(gone["Deleted"]) == len(keys), gone
        """

    @Test func `boto3 finds nothing wrong`() async throws {
        let isThere = try await Shell.run(["python3", "-c", "import boto3"]).status == 0
        guard isThere else {
            // The project does not need it: what it judges is tested without it too.
            print("FakeS3BotoTests: skipped, since python3 has no boto3")
            return
        }
        let server = try await FakeS3Server.start()
        let result = try await Shell.run(
            ["python3", "-c", Self.script, server.endpoint],
            environment: ["NO_PROXY": "127.0.0.1"],
            within: .seconds(60)
        )
        #expect(result.status == 0, "\(result)")
    }
}
