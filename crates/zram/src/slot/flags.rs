//! The four bits that lie beside an object in its entry.
//!
//! ```text
//!   | incompressible | idle | priority: 2 |
//! ```

use zsmalloc::Content;

/// Those beside an object of a slot or a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    /// Of what was just written.
    pub(crate) const NONE: Self = Flags(0);
    /// Not accessed since it was marked.
    pub(crate) const IDLE: Self = Flags(0b0100);
    const INCOMPRESSIBLE: Self = Flags(0b1000);
    const PRIORITY: u8 = 0b0011;

    pub(crate) fn of_priority(priority: u8) -> Self {
        Flags(priority & Self::PRIORITY)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Flags(bits)
    }

    /// The flags beside what an entry holds; none, where that is no object.
    pub(crate) fn of<B>(content: Content<B>) -> Self {
        match content {
            Content::Object { flags, .. } => Flags(flags),
            Content::Inline(_) => Flags::NONE,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// How often the object was recompressed: which of the algorithms made it.
    pub(crate) fn priority(self) -> u8 {
        self.0 & Self::PRIORITY
    }

    pub(crate) fn is_idle(self) -> bool {
        self.0 & Self::IDLE.0 != 0
    }

    /// Returns whether no algorithm makes it smaller.
    pub(crate) fn is_incompressible(self) -> bool {
        self.0 & Self::INCOMPRESSIBLE.0 != 0
    }

    pub(crate) fn with_idle(self) -> Self {
        Flags(self.0 | Self::IDLE.0)
    }

    pub(crate) fn without_idle(self) -> Self {
        Flags(self.0 & !Self::IDLE.0)
    }

    pub(crate) fn with_incompressible(self) -> Self {
        Flags(self.0 | Self::INCOMPRESSIBLE.0)
    }
}
