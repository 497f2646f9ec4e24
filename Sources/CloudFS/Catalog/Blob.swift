import Foundation
import GRDB

/// Bytes as a value of the catalog.
struct Blob: DatabaseValueConvertible {
    let bytes: [UInt8]

    var databaseValue: DatabaseValue { Data(bytes).databaseValue }

    static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? {
        Data.fromDatabaseValue(value).map { Blob(bytes: Array($0)) }
    }
}

extension Array where Element == UInt8 {
    var asBlob: Blob { Blob(bytes: self) }
}
