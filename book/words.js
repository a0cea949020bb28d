"use strict";
// What each structure is, in one sentence, with the book's word for it and its page of the format.
const WORDS = {
  superblock: ["Superblock", "40.2", "The superblock says what the volume is and where everything else begins; mount reads it first.", "superblock"],
  bitmap: ["Bitmap", "40.2", "A bitmap has a bit for each inode or block: set means allocated. In FFS each cylinder group has its own.", "bitmaps"],
  inodes: ["Inode table", "40.3", "An inode holds all about a file but its name: type, length, link count, times, and where its blocks are.", "inodes"],
  journal: ["Journal", "42.3", "The journal (write-ahead log) gets a transaction before the blocks go to their own places; recovery repeats what was committed.", "the journal"],
  checkpoint: ["Checkpoint region", "43.6", "The checkpoint region says where the log ends and where the inode map is; there are two, so that a torn one does no harm.", "checkpoints"],
  data: ["Data block", "40.2", "A data block holds contents of a file.", "data"],
  directory: ["Directory block", "40.4", "A directory is a file whose contents are pairs of a name and an inode number.", "directories"],
  indirect: ["Indirect block", "40.3", "An indirect block holds pointers to blocks instead of data, for files larger than the inode can map itself.", "indirect blocks"],
  segment: ["Clean segment", "43.3", "A segment is written from its beginning to its end and never in its middle; this part has not been written since it was clean.", "segments"],
  dead: ["Garbage, or metadata of the log", "43.9", "Written in a segment and no data block of a file now: a summary, inodes, a piece of the inode map, or garbage that the cleaner can win back.", "summaries"],
  free: ["Free", "40.6", "No file has this block: the next allocation may take it.", "free space"],
  unused: ["Unused", "", "This part of the device belongs to no structure.", ""],
};

const STRUCTURES = {
  overview: "What lies where, and how full it is.",
  superblock: "The superblock: every field of it.",
  bitmaps: "Bitmaps (40.2): runs of bits that are set. A set bit means allocated.",
  groups: "Cylinder groups (41.3): FFS keeps an inode near its directory and data near its inode, within one group.",
  journal: "Journal (42.3): transactions that were committed and may have to be repeated.",
  checkpoints: "Checkpoint region (43.6): two slots, written in turn.",
  segments: "Segment usage table (43.9): how many bytes of each segment are live.",
  summaries: "Segment summaries (43.9): for each block the file and the offset it was written for, which tells whether it is live.",
  ifile: "Inode map (43.5): where the newest version of each inode is. Here it is a file, the ifile.",
};

const FORMATS = { vsfs: "docs/ondisk-vsfs.md", ffs: "docs/ondisk-ffs.md", lfs: "docs/ondisk-lfs.md" };
