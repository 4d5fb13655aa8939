//! Reads a file out of a ZIP archive that we ship: no encryption, no ZIP64, names in plain ASCII.

/// A file in the archive, as it lies there.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    method: u16,
    packed: &'a [u8],
    /// CRC-32 of the unpacked bytes.
    pub(super) crc: u32,
    /// Of the unpacked bytes.
    pub(super) length: u32,
}

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

impl<'a> Entry<'a> {
    /// The raw deflate stream, where that is how it was packed.
    pub(super) fn deflated(&self) -> Option<&'a [u8]> {
        (self.method == DEFLATED).then_some(self.packed)
    }

    /// `None` where it is packed in another way, or damaged.
    pub(super) fn unpacked(&self) -> Option<Vec<u8>> {
        let bytes = match self.method {
            STORED => self.packed.to_vec(),
            DEFLATED => miniz_oxide::inflate::decompress_to_vec(self.packed).ok()?,
            _ => return None,
        };
        (crc32fast::hash(&bytes) == self.crc).then_some(bytes)
    }
}

/// The first file, at most two folders deep, whose path ends so.
pub(super) fn entry<'a>(archive: &'a [u8], ending: &str) -> Option<Entry<'a>> {
    let end = archive.windows(END_OF_DIRECTORY.len()).rposition(|window| window == END_OF_DIRECTORY)?;
    let mut at = usize::try_from(u32_at(archive, end.checked_add(16)?)?).ok()?;
    while archive.get(at..)?.starts_with(DIRECTORY_ENTRY) {
        let field = |offset: usize| u16_at(archive, at.checked_add(offset)?).map(usize::from);
        let (name_length, extra, comment) = (field(28)?, field(30)?, field(32)?);
        let name_at = at.checked_add(46)?;
        let name = archive.get(name_at..name_at.checked_add(name_length)?)?;
        if name.ends_with(ending.as_bytes()) && name.iter().filter(|byte| **byte == b'/').count() <= 2 {
            return read(archive, at);
        }
        at = name_at.checked_add(name_length)?.checked_add(extra)?.checked_add(comment)?;
    }
    None
}

/// The file of a directory entry. Its local header has lengths of its own for what precedes the bytes.
fn read(archive: &[u8], at: usize) -> Option<Entry<'_>> {
    let word = |offset: usize| u32_at(archive, at.checked_add(offset)?);
    let (crc, packed_length, length, local) = (word(16)?, word(20)?, word(24)?, word(42)?);
    let local = usize::try_from(local).ok()?;
    if !archive.get(local..)?.starts_with(LOCAL_HEADER) {
        return None;
    }
    let field = |offset: usize| u16_at(archive, local.checked_add(offset)?).map(usize::from);
    let start = local.checked_add(30)?.checked_add(field(26)?)?.checked_add(field(28)?)?;
    let packed = archive.get(start..start.checked_add(usize::try_from(packed_length).ok()?)?)?;
    Some(Entry { method: u16_at(archive, at.checked_add(10)?)?, packed, crc, length })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
