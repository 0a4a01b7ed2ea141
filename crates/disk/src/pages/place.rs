//! Where pages are, and which were seen.

/// redb's page size, which [`open_database`](crate::open_database) does not change.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Pages of a region by default, without a region header: redb's `MAX_USABLE_REGION_SPACE` of 4 GiB.
pub(super) const REGION_PAGES: u64 = 1 << 20;

/// A page has 2^order times 4 KiB. redb allows order 20 (4 GiB); values of the catalog are far below these 256 MiB,
/// and a damaged page number must not size a larger buffer.
const MAX_ORDER: u64 = 16;

/// A page of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Place {
    /// The header.
    pub(super) const HEADER: Place = Place { offset: 0, bytes: PAGE_BYTES };

    /// Decodes redb's page number: 20 bits of index in units of the page's own size, 20 bits of region, 19 reserved,
    /// 5 bits of order. `None` if the page is larger than any, or not within `file_bytes`.
    pub(super) fn decode(number: u64, file_bytes: u64) -> Option<Place> {
        let order = number >> 59;
        if order > MAX_ORDER {
            return None;
        }
        let index = number & (0xf_ffff >> order);
        let region = (number >> 20) & 0xf_ffff;
        let page = region * REGION_PAGES + (index << order);
        // Fits: a region number has 20 bits, and so has the page in the region.
        let place = Place { offset: PAGE_BYTES * (1 + page), bytes: PAGE_BYTES << order };
        (place.offset + place.bytes <= file_bytes).then_some(place)
    }
}

/// One bit for each page of 4 KiB.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<u64>);

impl Seen {
    /// None of the pages of a file.
    pub(super) fn none(file_bytes: u64) -> Self {
        Seen(vec![0; (file_bytes / PAGE_BYTES).div_ceil(64) as usize])
    }

    /// Marks a page. `false` if any of it was marked before.
    pub(super) fn mark(&mut self, place: Place) -> bool {
        let first = place.offset / PAGE_BYTES;
        let mut is_new = true;
        for page in first..first + place.bytes / PAGE_BYTES {
            let Some(word) = self.0.get_mut((page / 64) as usize) else { return false };
            let bit = 1 << (page % 64);
            is_new &= *word & bit == 0;
            *word |= bit;
        }
        is_new
    }
}
