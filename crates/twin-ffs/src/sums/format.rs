//! Where the checksums of a volume lie behind it, and their form on the device.
//!
//! Contract: the volume is divided into regions, each with as many fragments as a table block has checksums.
//! Behind the volume come the pages of a bitmap, one bit a region, and then the table blocks, one for each
//! region. A page is written as one sector. Pages and table blocks have a checksum of their own, the tag
//! of the volume and their number.

use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::{FsError, Result};

use crate::format::Superblock;

/// Bytes of a table block.
pub(crate) const TABLE_BYTES: u64 = 4096;
const TABLE_HEADER: usize = 32;
/// Checksums of a table block.
pub(crate) const SUMS: usize = (TABLE_BYTES as usize - TABLE_HEADER) / 4;
const PAGE_HEADER: usize = 16;
const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"ffst");
const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"ffsd");

/// The places of the checksums of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumsPlan {
    /// Bytes of the volume itself.
    pub(crate) size: u64,
    /// Bytes that a checksum is of.
    pub(crate) unit: u64,
    /// The number of regions.
    pub(crate) regions: u32,
    /// Bytes of a page of the bitmap.
    pub(crate) page: u64,
    tag: u32,
}

impl SumsPlan {
    /// The plan of a volume that has checksums.
    pub(crate) fn of(sb: &Superblock) -> SumsPlan {
        let mut plan = SumsPlan::sized(sb.size, sb.geometry.frag_size);
        plan.tag = sb.tag();
        plan
    }

    fn sized(size: u64, frag_size: u32) -> SumsPlan {
        let unit = u64::from(frag_size);
        let regions = size.div_ceil(unit * SUMS as u64) as u32;
        let page = if frag_size >= 4096 { 4096 } else { 512 };
        SumsPlan { size, unit, regions, page, tag: 0 }
    }

    /// The bytes that a volume with checksums may have on a device of `device` bytes, whole blocks.
    pub(crate) fn volume_bytes(device: u64, frag_size: u32, block_size: u32) -> u64 {
        let block = u64::from(block_size);
        let region = u64::from(frag_size) * SUMS as u64;
        let share = u128::from(device) * u128::from(region) / u128::from(region + TABLE_BYTES);
        let mut size = share as u64 / block * block;
        while size > block && SumsPlan::sized(size, frag_size).end() > device {
            size -= block;
        }
        size
    }

    /// Bytes of a region.
    pub(crate) fn region_bytes(&self) -> u64 {
        self.unit * SUMS as u64
    }

    /// The region of a byte of the volume, and the number of its checksum there.
    pub(crate) fn nth(&self, at: u64) -> (u32, usize) {
        let region = at / self.region_bytes();
        (region as u32, (at % self.region_bytes() / self.unit) as usize)
    }

    /// Regions of a page.
    fn per_page(&self) -> u32 {
        (self.page as u32 - PAGE_HEADER as u32) * 8
    }

    /// The number of pages.
    pub(crate) fn pages(&self) -> u32 {
        self.regions.div_ceil(self.per_page())
    }

    /// The page with the bit of a region, and the bit.
    pub(crate) fn bit_of(&self, region: u32) -> (u32, u32) {
        (region / self.per_page(), region % self.per_page())
    }

    /// The first byte of a page.
    pub(crate) fn page_at(&self, page: u32) -> u64 {
        self.size.next_multiple_of(TABLE_BYTES) + u64::from(page) * self.page
    }

    /// The first byte of the table block of a region.
    pub(crate) fn table_at(&self, region: u32) -> u64 {
        self.page_at(self.pages()).next_multiple_of(TABLE_BYTES) + u64::from(region) * TABLE_BYTES
    }

    /// The first byte behind all of it.
    pub(crate) fn end(&self) -> u64 {
        self.table_at(self.regions)
    }

    /// A page of the bitmap; `is_in_doubt` says of a region whether its bit is set.
    pub(crate) fn encode_page(&self, page: u32, is_in_doubt: impl Fn(u32) -> bool) -> Vec<u8> {
        let mut raw = vec![0; self.page as usize];
        let first = page * self.per_page();
        for bit in 0..self.per_page().min(self.regions - first) {
            if is_in_doubt(first + bit) {
                raw[PAGE_HEADER + bit as usize / 8] |= 1 << (bit % 8);
            }
        }
        self.seal(&mut raw, PAGE_MAGIC, page);
        raw
    }

    /// The regions in doubt of a page; `None` if it is not sound.
    pub(crate) fn decode_page(&self, page: u32, raw: &[u8]) -> Option<Vec<u32>> {
        self.is_sound(raw, PAGE_MAGIC, page).then(|| {
            let first = page * self.per_page();
            let bits = 0..self.per_page().min(self.regions - first);
            let is_set = |bit: &u32| raw[PAGE_HEADER + *bit as usize / 8] >> (bit % 8) & 1 != 0;
            bits.filter(is_set).map(|bit| first + bit).collect()
        })
    }

    /// All regions of a page.
    pub(crate) fn of_page(&self, page: u32) -> std::ops::Range<u32> {
        let first = page * self.per_page();
        first..(first + self.per_page()).min(self.regions)
    }

    /// The table block of a region.
    pub(crate) fn encode_table(&self, region: u32, sums: &[u32]) -> Vec<u8> {
        let mut raw = vec![0; TABLE_BYTES as usize];
        let mut w = FieldWriter { raw: &mut raw, at: TABLE_HEADER };
        sums.iter().for_each(|&sum| w.u32(sum));
        self.seal(&mut raw, TABLE_MAGIC, region);
        raw
    }

    /// The checksums of a region.
    ///
    /// # Errors
    /// If the block is not sound.
    pub(crate) fn decode_table(&self, region: u32, raw: &[u8]) -> Result<Vec<u32>> {
        if !self.is_sound(raw, TABLE_MAGIC, region) {
            let what = format!("no checksums of region {region} are here");
            return Err(FsError::corrupt(self.table_at(region), what));
        }
        let mut r = FieldReader { raw, at: TABLE_HEADER };
        Ok((0..SUMS).map(|_| r.u32()).collect())
    }

    fn seal(&self, raw: &mut [u8], magic: u32, number: u32) {
        let mut w = FieldWriter { raw: &mut *raw, at: 8 };
        w.u32(self.tag);
        w.u32(number);
        let crc = crc32c::crc32c(&raw[8..]);
        let mut w = FieldWriter { raw, at: 0 };
        w.u32(magic);
        w.u32(crc);
    }

    fn is_sound(&self, raw: &[u8], magic: u32, number: u32) -> bool {
        let mut r = FieldReader { raw, at: 0 };
        let own = [r.u32(), r.u32(), r.u32(), r.u32()];
        own == [magic, crc32c::crc32c(&raw[8..]), self.tag, number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_fit_behind_the_volume() {
        for device in [2_u64 << 20, 16 << 20, 1 << 30, (5 << 30) + 12_345, 3 << 40] {
            for (frag, block) in [(512, 4096), (1024, 8192), (4096, 4096), (8192, 65_536)] {
                let size = SumsPlan::volume_bytes(device, frag, block);
                let plan = SumsPlan::sized(size, frag);
                assert!(plan.end() <= device && size > device * 9 / 10, "{device} {frag}: {size}");
                assert!(plan.page_at(0) >= size && plan.table_at(0) >= plan.page_at(plan.pages()));
            }
        }
    }

    #[test]
    fn pages_and_tables_survive_the_disk_and_no_change_of_them_passes() {
        let plan = SumsPlan { tag: 77, ..SumsPlan::sized(9 << 30, 1024) };
        let raw = plan.encode_page(1, |region| region % 5 == 3);
        let all: Vec<u32> = plan.of_page(1).filter(|region| region % 5 == 3).collect();
        assert_eq!(plan.decode_page(1, &raw), Some(all));
        assert_eq!(plan.decode_page(0, &raw), None);
        let sums: Vec<u32> = (0..SUMS as u32).map(|n| n * n).collect();
        let table = plan.encode_table(6, &sums);
        assert_eq!(plan.decode_table(6, &table), Ok(sums));
        assert!(plan.decode_table(5, &table).is_err());
        for at in [0, 5, 9, 13, 40, 511] {
            let (mut page, mut block) = (raw.clone(), table.clone());
            (page[at], block[at]) = (page[at] ^ 4, block[at] ^ 4);
            assert_eq!(plan.decode_page(1, &page), None, "{at}");
            assert!(plan.decode_table(6, &block).is_err(), "{at}");
        }
    }
}
