//! The files of the mount, each identified by a number and a name.

use zram::{Attribute, attributes};

/// The number of the first attribute.
const ATTRIBUTES: u64 = 16;

/// A file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Root,
    Disk,
    Attributes,
    Classes,
    Attribute(&'static Attribute),
}

impl Node {
    pub(super) fn by_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Node::Root),
            2 => Some(Node::Disk),
            3 => Some(Node::Attributes),
            4 => Some(Node::Classes),
            _ => {
                let nth = number.checked_sub(ATTRIBUTES)?;
                attributes().get(usize::try_from(nth).ok()?).map(Node::Attribute)
            }
        }
    }

    pub(super) fn number(self) -> u64 {
        match self {
            Node::Root => 1,
            Node::Disk => 2,
            Node::Attributes => 3,
            Node::Classes => 4,
            Node::Attribute(attribute) => {
                let nth = attributes().iter().position(|other| other.name == attribute.name);
                ATTRIBUTES + nth.unwrap_or(0) as u64
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Node::Root => "/",
            Node::Disk => "disk",
            Node::Attributes => "attr",
            Node::Classes => "classes",
            Node::Attribute(attribute) => attribute.name,
        }
    }

    pub(super) fn is_directory(self) -> bool {
        matches!(self, Node::Root | Node::Attributes)
    }

    /// Returns the entries of a directory.
    pub(super) fn children(self) -> Vec<Self> {
        match self {
            Node::Root => vec![Node::Disk, Node::Attributes, Node::Classes],
            Node::Attributes => attributes().iter().map(Node::Attribute).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_their_numbers() {
        let all = [Node::Root, Node::Attributes];
        for node in all.into_iter().chain(all.into_iter().flat_map(Node::children)) {
            let found = Node::by_number(node.number()).unwrap();
            assert_eq!((found.number(), found.name()), (node.number(), node.name()));
        }
        for number in [0, 5, ATTRIBUTES - 1, ATTRIBUTES + attributes().len() as u64, u64::MAX] {
            assert!(Node::by_number(number).is_none());
        }
    }
}
