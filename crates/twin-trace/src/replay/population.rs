//! The files that existed before a workload began, collected from its nodes and created on a
//! volume.

use twin_fs::{Ino, Name, ROOT_INO, mode};
use twin_rt::FixedMap;

use crate::error::TraceError;
use crate::record::{Node, NodeAttr, Record};
use crate::stream::{Source, blank};

/// A tree to create: inodes in an order in which parents come before children.
///
/// A workload may have several nodes for an inode (see [`Node`]); this list has each inode once,
/// with its final attributes, and each further name of it as a link.
#[derive(Clone, Debug, Default)]
pub struct Population {
    items: Vec<Item>,
    /// The index in `items` of each inode.
    places: FixedMap<Ino, usize>,
    /// Number of nodes that were left out: their directory was unknown, they named the root, or
    /// they contradicted an earlier node.
    dropped: u64,
    /// The number of each client's last request in a recording of a mount.
    last_requests: FixedMap<u32, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) node: Node,
    /// Set for a further name of an earlier inode.
    pub(super) is_link: bool,
    /// The ranges of a file that have data, if they are known: beginning and length.
    pub(super) data: Vec<(u64, u64)>,
}

impl Population {
    /// Reads only the nodes of a workload: to its end or, if the workload has all nodes first, to
    /// its first request. Takes memory for each node. Of a recording of a mount also the ends of
    /// the clients are noted ([`Order::Process`](super::Order::Process) needs them), with memory
    /// for each client.
    pub fn collect(source: &mut impl Source) -> Result<Population, TraceError> {
        let mut population = Population::default();
        if source.header().traits.mounted {
            let mut record = blank();
            while source.next_into(&mut record)? {
                population.note(&record, true);
            }
            return Ok(population);
        }
        while let Some(node) = source.next_node()? {
            population.add(node);
        }
        Ok(population)
    }

    /// Takes from a record what [`collect`](Self::collect) takes from it, for those who read all records of
    /// a workload anyway.
    pub fn note(&mut self, record: &Record, is_of_mount: bool) {
        match record {
            Record::Node(node) => self.add(node.clone()),
            Record::Request { request, .. } if is_of_mount => {
                self.last_requests.insert(request.client, request.id);
            }
            Record::Request { .. } | Record::Reply { .. } => {}
        }
    }

    /// Adds a node, or counts it as dropped if it is invalid.
    pub fn add(&mut self, node: Node) {
        if let Some(range) = node.as_data() {
            let place = self.places.get(&node.ino);
            match place.map(|place| &mut self.items[*place]) {
                Some(item) if item.node.mode & mode::TYPE == mode::REGULAR => item.data.push(range),
                _ => self.dropped += 1,
            }
            return;
        }
        let is_dir = |place: usize| self.items[place].node.is_dir();
        let parent = self.places.get(&node.dir).copied();
        if (node.dir != ROOT_INO && !parent.is_some_and(is_dir)) || node.ino == ROOT_INO {
            self.dropped += 1;
            return;
        }
        let Some(&place) = self.places.get(&node.ino) else {
            self.places.insert(node.ino, self.items.len());
            self.items.push(Item { node, is_link: false, data: Vec::new() });
            return;
        };
        let known = &mut self.items[place].node;
        if known.mode & mode::TYPE != node.mode & mode::TYPE {
            self.dropped += 1;
            return;
        }
        let complete = known.attr.is_none() && node.attr.is_some();
        if complete {
            (known.mode, known.attr) = (node.mode, node.attr);
        }
        let same = known.dir == node.dir && known.name == node.name;
        let several = known.attr.is_some_and(|attr| attr.nlink > 1) && !known.is_dir();
        if !same && several {
            self.items.push(Item { node, is_link: true, data: Vec::new() });
        }
    }

    /// The number of inodes and further names.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if the workload begins with an empty volume.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Total size of the files in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.items
            .iter()
            .filter(|item| !item.is_link && item.node.mode & mode::TYPE == mode::REGULAR)
            .map(|item| attr(&item.node).allocated)
            .fold(0, u64::saturating_add)
    }

    /// Number of invalid nodes (a directory without a node, two kinds for one inode).
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The number of each client's last request; empty if unknown.
    pub(super) fn last_requests(&self) -> &FixedMap<u32, u64> {
        &self.last_requests
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }
}

/// The attributes of a node; by default those of an empty file of root.
pub(super) fn attr(node: &Node) -> NodeAttr {
    node.attr.unwrap_or(NodeAttr { nlink: 1, ..NodeAttr::default() })
}

/// A link target of this length; its content was not kept.
pub(super) fn link_target(node: &Node) -> Name {
    let len = attr(node).size.clamp(1, 4095) as usize;
    vec![b'x'; len].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: Ino, name: &str, ino: Ino, nlink: u32) -> Node {
        let attr = NodeAttr { nlink, size: 5, allocated: 5, ..NodeAttr::default() };
        let mode = mode::REGULAR | 0o600;
        Node { dir, name: name.as_bytes().into(), ino, mode, attr: Some(attr) }
    }

    fn directory(dir: Ino, name: &str, ino: Ino) -> Node {
        Node { mode: mode::DIRECTORY | 0o700, ..file(dir, name, ino, 2) }
    }

    fn population(nodes: &[Node]) -> Population {
        let mut population = Population::default();
        nodes.iter().for_each(|node| population.add(node.clone()));
        population
    }

    #[test]
    fn a_second_name_is_a_link() {
        let all = population(&[file(2, "a", 3, 2), file(2, "b", 3, 2), file(2, "a", 3, 2)]);
        let links: Vec<_> = all.items.iter().map(|item| item.is_link).collect();
        assert_eq!((links, all.file_bytes()), (vec![false, true], 5));
    }

    #[test]
    fn a_listed_inode_is_completed_where_it_was_listed() {
        let listed = Node { attr: None, mode: mode::REGULAR, ..file(2, "a", 3, 1) };
        let all = population(&[listed, file(2, "renamed", 3, 1)]);
        let expected = Node { name: (*b"a").into(), ..file(2, "renamed", 3, 1) };
        assert_eq!(all.items, [Item { node: expected, is_link: false, data: Vec::new() }]);
    }

    #[test]
    fn what_has_no_directory_is_dropped() {
        let nodes = [
            file(9, "orphan", 3, 1),
            file(2, "a", 4, 1),
            file(4, "under a file", 5, 1),
            directory(2, "root again", 2),
            directory(2, "d", 4),
        ];
        let all = population(&nodes);
        assert_eq!((all.len(), all.dropped()), (1, 4));
    }
    #[test]
    fn ranges_of_data_belong_to_the_file_that_was_named_before() {
        let all = population(&[
            file(2, "a", 3, 1),
            Node::data(3, 4096, 8192),
            Node::data(3, 0, 512),
            Node::data(9, 0, 512),
        ]);
        assert_eq!(all.items[0].data, [(4096, 8192), (0, 512)]);
        assert_eq!((all.len(), all.dropped()), (1, 1));
    }
}
