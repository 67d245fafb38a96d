//! The page with embedded data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// The built page, without data.
pub(crate) const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.html"));

/// True if the page is only a stub, which was not built.
pub const IS_STUB: bool = include!(concat!(env!("OUT_DIR"), "/is_stub.rs"));

/// End of the tag that opens the data element. `</script>` follows it in the page.
const SLOT: &str = r#"id="vitalfew-data">"#;

/// Compresses the data by gzip, as the page expects them.
///
/// # Errors
/// Only if there is no memory.
pub fn compress_data(json: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(json)?;
    encoder.finish()
}

/// Returns the page as one file that shows `compressed` data (see [`compress_data`]). The data are
/// base64, so that they cannot close their element.
pub fn page_with_data(compressed: &[u8]) -> String {
    let data = STANDARD.encode(compressed);
    match PAGE.find(SLOT) {
        Some(at) => {
            let (before, behind) = PAGE.split_at(at + SLOT.len());
            [before, &data, behind].concat()
        }
        None => PAGE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stand_in_their_slot_once() {
        let page =
            page_with_data(&compress_data(b"</script><script>alert(1)</script>").expect("memory"));
        assert_eq!(page.matches(SLOT).count(), 1, "the page has one slot");
        assert!(!page.contains("alert(1)"));
        let start = page.find(SLOT).expect("a slot") + SLOT.len();
        let data = page[start..].split('<').next().expect("its end");
        let compressed = STANDARD.decode(data).expect("base64");
        let mut text = String::new();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*compressed), &mut text)
            .expect("gzip");
        assert_eq!(text, "</script><script>alert(1)</script>");
    }
}
