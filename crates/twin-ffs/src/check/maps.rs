//! Compares the maps of the groups with what the inodes use.

use twin_check::{Finding, FindingKind, Node, NumberState, Report};
use twin_fs::{Ino, mode};

use super::image::FfsImage;
use crate::bits::Bits;
use crate::format::CgImage;
use crate::group::Group;

impl FfsImage {
    /// Compares the maps with what was found. If `fixes`, replaces those that differ.
    pub(super) fn check_maps(&self, nodes: &[Node], fixes: bool, report: &mut Report) {
        for index in 0..self.view.sb.groups {
            let group = self.recomputed_group(nodes, index);
            let frag = u64::from(self.view.sb.geometry.frag_size);
            let free = group.free_frags() * frag;
            let data = self.view.sb.frags_of(index) - self.view.sb.group_data_start();
            report.counts.free_bytes += free;
            report.counts.used_bytes += u64::from(data) * frag - free;
            let image = group.to_image(&[], &[]);
            let at = self.view.sb.geometry.byte_of(self.view.sb.cg_addr(index));
            let same = match self.maps[index as usize].clone() {
                Some(found) => {
                    self.compare(&image, &found, at, report);
                    found == image
                }
                None => false,
            };
            if fixes && !same {
                let raw = image.encode(&self.view.sb);
                self.view.put(self.view.sb.cg_addr(index), raw);
            }
        }
    }

    /// The group as its inodes say it should be. Only the rotors are taken from the device.
    fn recomputed_group(&self, nodes: &[Node], index: u32) -> Group {
        let sb = &self.view.sb;
        let used = &self.used[index as usize];
        let mut free = Bits::new(sb.frags_of(index));
        (0..free.len()).filter(|&at| !used.get(at)).for_each(|at| free.set(at, true));
        let first = Ino::from(index) * Ino::from(sb.group_inodes);
        let mut inodes = Bits::new(sb.group_inodes);
        let (mut dirs, mut last) = (0, 0);
        for i in 0..sb.group_inodes {
            let node = &nodes[(first + Ino::from(i)) as usize];
            let reserved = index == 0 && i < 2;
            if node.state == NumberState::Read || reserved {
                inodes.set(i, true);
                last = i + 1;
                dirs += u32::from(node.is(mode::DIRECTORY));
            }
        }
        let mut group = Group::from_maps(sb, index, free, inodes);
        group.counts.dirs = dirs;
        let per = sb.inodes_per_block();
        let known = self.maps[index as usize].as_ref();
        let written = known.map_or(sb.group_inodes, |image| image.inodes_written);
        group.inodes_written = written.max(last.next_multiple_of(per));
        if let Some(image) = known {
            group.set_rotors(image);
        }
        group
    }

    fn compare(&self, right: &CgImage, found: &CgImage, at: u64, report: &mut Report) {
        let differing = |a: &[u8], b: &[u8], f: fn(u8, u8) -> u8| -> u32 {
            a.iter().zip(b).map(|(&a, &b)| f(a, b).count_ones()).sum()
        };
        let group = right.group;
        let lost = differing(&right.free, &found.free, |r, f| r & !f);
        let taken = differing(&right.free, &found.free, |r, f| f & !r);
        let idle = differing(&right.inodes, &found.inodes, |r, f| f & !r);
        let unmarked = differing(&right.inodes, &found.inodes, |r, f| r & !f);
        let first = |a: &[u8], b: &[u8]| {
            let byte = a.iter().zip(b).position(|(a, b)| a != b)?;
            let bit = (a[byte] ^ b[byte]).trailing_zeros() as usize;
            Some(byte * 8 + bit)
        };
        let ino = first(&right.inodes, &found.inodes)
            .map(|index| Ino::from(group) * Ino::from(self.view.sb.group_inodes) + index as Ino);
        let mut say =
            |count: u32, finding: fn(FindingKind, String) -> Finding, kind, what: &str| {
                if count > 0 {
                    let finding = finding(kind, format!("group {group}: {count} {what}")).at(at);
                    report.add(match ino.filter(|_| kind == FindingKind::InodeMap) {
                        Some(ino) => finding.of(ino),
                        None => finding,
                    });
                }
            };
        say(
            lost,
            Finding::minor,
            FindingKind::FragmentMap,
            "fragments are free but marked as used",
        );
        say(
            taken,
            Finding::serious,
            FindingKind::FragmentMap,
            "fragments are used but marked as free",
        );
        say(idle, Finding::minor, FindingKind::InodeMap, "inodes are free but marked as used");
        say(
            unmarked,
            Finding::serious,
            FindingKind::InodeMap,
            "inodes are used but marked as free",
        );
        let maps_agree = lost + taken + idle + unmarked == 0;
        if maps_agree
            && (right.counts, right.inodes_written) != (found.counts, found.inodes_written)
        {
            let what = format!("group {group}: the counts do not agree with the maps");
            report.add(Finding::minor(FindingKind::GroupMaps, what).at(at));
        }
    }
}
