//! The encoding of a release inside its Secret: base64 of gzipped JSON (or of plain JSON,
//! as very old records have it).

use std::io::{Read, Write};

use data_encoding::BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Most bytes of JSON that a record is unpacked to. The API server holds at most 1.5 MiB
/// of gzip, which could say far more than that.
const MAX_JSON: u64 = 64 * 1024 * 1024;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 0x08];

/// A payload that isn't a release.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Not base64.
    #[error("the payload is not base64: {0}")]
    Base64(#[from] data_encoding::DecodeError),
    /// Not gzip, or broken inside.
    #[error("the payload can't be unpacked: {0}")]
    Gzip(#[from] std::io::Error),
    /// Unpacks to more than is sane.
    #[error("the payload unpacks to more than {} MiB", MAX_JSON / 1024 / 1024)]
    TooLarge,
    /// Not JSON.
    #[error("the payload is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but no object with an `info` in it.
    #[error("the payload is JSON but not a release: it has no object \"info\"")]
    NotARelease,
}

/// Decodes the bytes of the key `release` of a record's Secret.
///
/// # Errors
/// If they aren't a release; the message holds nothing of the contents.
pub fn decode(data: &[u8]) -> Result<Value, CodecError> {
    let packed = BASE64.decode(data)?;
    let value: Value = if packed.starts_with(GZIP_MAGIC) {
        let mut json = Vec::new();
        GzDecoder::new(packed.as_slice())
            .take(MAX_JSON + 1)
            .read_to_end(&mut json)?;
        if json.len() as u64 > MAX_JSON {
            return Err(CodecError::TooLarge);
        }
        serde_json::from_slice(&json)?
    } else {
        serde_json::from_slice(&packed)?
    };
    if value.get("info").is_some_and(Value::is_object) {
        Ok(value)
    } else {
        Err(CodecError::NotARelease)
    }
}

/// Encodes a release as helm would.
///
/// # Errors
/// If the value can't be serialised, which no decoded value does.
pub fn encode(release: &Value) -> Result<Vec<u8>, CodecError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(release)?)?;
    Ok(BASE64.encode(&encoder.finish()?).into_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_survives_the_round_trip() {
        let release = json!({"name": "a", "info": {"status": "deployed"}, "config": {"n": 1.5}});
        assert_eq!(decode(&encode(&release).unwrap()).unwrap(), release);
    }

    #[test]
    fn records_from_before_compression_are_read() {
        let plain = BASE64.encode(br#"{"info":{}}"#);
        assert_eq!(decode(plain.as_bytes()).unwrap(), json!({"info": {}}));
    }

    #[test]
    fn what_is_no_release_is_refused() {
        assert!(matches!(decode(b"%"), Err(CodecError::Base64(_))));
        assert!(matches!(
            decode(BASE64.encode(b"{").as_bytes()),
            Err(CodecError::Json(_))
        ));
        assert!(matches!(
            decode(BASE64.encode(b"[]").as_bytes()),
            Err(CodecError::NotARelease)
        ));
        let mut torn = encode(&json!({"info": {}})).unwrap();
        torn.truncate(16);
        assert!(matches!(decode(&torn), Err(CodecError::Gzip(_))));
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let chunk = vec![b' '; 1024 * 1024];
        for _ in 0..65 {
            encoder.write_all(&chunk).unwrap();
        }
        let bomb = BASE64.encode(&encoder.finish().unwrap());
        assert!(matches!(decode(bomb.as_bytes()), Err(CodecError::TooLarge)));
    }
}
