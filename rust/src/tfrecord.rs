//! TFRecord files: for each record its length, a checksum of the length, the bytes, a checksum of the bytes. Numbers are
//! little-endian, checksums CRC-32C, rotated and shifted so that a checksum of checksums is no trivial one.

use bytes::Bytes;

const HEAD: usize = 12;
const FOOT: usize = 4;

/// Cuts a file into its records, which stay slices of it. Ends after the first error, which tells where.
pub fn records(file: Bytes) -> impl Iterator<Item = Result<Bytes, String>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == file.len() {
            return None;
        }
        let record = record_at(&file, at);
        at = record.as_ref().map_or(file.len(), |record| at + HEAD + record.len() + FOOT);
        Some(record)
    })
}

fn record_at(file: &Bytes, at: usize) -> Result<Bytes, String> {
    let broken = |what: &str| format!("{what} at byte {at}");
    let rest = file.slice(at..);
    let (head, body) = rest.split_first_chunk::<HEAD>().ok_or_else(|| broken("truncated record"))?;
    let (len, sum) = head.split_at(8);
    if sum != masked(len).to_le_bytes() {
        return Err(broken("corrupted record"));
    }
    let len = len.iter().rev().fold(0_u64, |len, byte| len << 8 | u64::from(*byte));
    let len = usize::try_from(len).ok().filter(|len| *len <= body.len().saturating_sub(FOOT));
    let len = len.filter(|_| body.len() >= FOOT).ok_or_else(|| broken("truncated record"))?;
    if body[len..len + FOOT] != masked(&body[..len]).to_le_bytes() {
        return Err(broken("corrupted record"));
    }
    Ok(rest.slice(HEAD..HEAD + len))
}

/// Adds a record.
pub fn append(file: &mut Vec<u8>, record: &[u8]) {
    let len = (record.len() as u64).to_le_bytes();
    file.extend(len);
    file.extend(masked(&len).to_le_bytes());
    file.extend(record);
    file.extend(masked(record).to_le_bytes());
}

/// Bytes that a record of this length takes in a file.
pub fn framed_len(record: usize) -> usize {
    HEAD + record + FOOT
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        records.iter().for_each(|record| append(&mut file, record));
        file
    }

    fn read(file: Vec<u8>) -> Result<Vec<Bytes>, String> {
        records(file.into()).collect()
    }

    #[test]
    fn checksums_are_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(file(&[b""]), b"\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2");
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(file(&[b"one", b"", b"three"])).unwrap(), ["one", "", "three"]);
        assert_eq!(read(vec![]).unwrap(), Vec::<Bytes>::new());
        assert_eq!(file(&[b"four"]).len(), framed_len(4));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let whole = file(&[b"one", b"two"]);
        for end in (1..whole.len()).filter(|end| *end != framed_len(3)) {
            assert!(read(whole[..end].to_vec()).is_err(), "cut at {end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_length_beyond_the_file_is_refused() {
        let len = u64::MAX.to_le_bytes();
        let huge = [&len[..], &masked(&len).to_le_bytes(), b"rest of it"].concat();
        assert_eq!(read(huge).unwrap_err(), "truncated record at byte 0");
    }
}
