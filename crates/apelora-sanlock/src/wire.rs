//! The bytes of the protocol, sizes and places (tests/data/fencing/sanlock.md section 3; measured with sanlock 3.8.5).
//!
//! Numbers have the byte order of the machine: both ends of a Unix socket are on it.

use crate::error::Garbage;

/// The first word of every header.
pub(crate) const MAGIC: u32 = 0x0428_2010;
/// The version of the protocol; the upper 16 bits are the major one.
pub(crate) const PROTOCOL: u32 = 1;
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a name, which need not end with NUL.
pub(crate) const NAME_BYTES: usize = 48;
/// Bytes of the description of a lockspace: name, host id, flags, path, offset and padding.
pub(crate) const LOCKSPACE_BYTES: usize = 1104;
/// Bytes of one host in the answer to `get_hosts`.
pub(crate) const HOST_BYTES: usize = 32;
/// Bytes before the text of a state record.
pub(crate) const STATE_BYTES: usize = 80;
/// The most bytes of a state record's text (`SANLK_STATE_MAXSTR`).
const MOST_TEXT: usize = 4096;
/// The highest host id that a lockspace has.
pub(crate) const MOST_HOSTS: u64 = 2000;

/// Reads an answer from its front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Garbage> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Garbage::Short(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Garbage> {
        self.take(N, what)?.try_into().map_err(|_| Garbage::Short(what))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Garbage> {
        self.array(what).map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Garbage> {
        self.array(what).map(u64::from_ne_bytes)
    }
}

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) command: u32,
    pub(crate) length: u32,
    /// The result of most commands: 0, or a negative error number.
    pub(crate) result: i32,
    /// How many records follow, where they are counted.
    pub(crate) count: u32,
}

impl Header {
    /// Takes a header off the front. The version is checked by the caller, who can say what to do about it.
    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Result<Self, Garbage> {
        const WHAT: &str = "the header";
        if cursor.u32(WHAT)? != MAGIC {
            return Err(Garbage::Magic);
        }
        let version = cursor.u32(WHAT)?;
        let command = cursor.u32(WHAT)?;
        let _flags = cursor.u32(WHAT)?;
        let length = cursor.u32(WHAT)?;
        let _seq = cursor.u32(WHAT)?;
        let result = i32::from_ne_bytes(cursor.array(WHAT)?);
        let count = cursor.u32(WHAT)?;
        Ok(Self { version, command, length, result, count })
    }
}

/// What a state record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Daemon,
    Client,
    Lockspace,
    Host,
}

impl StateKind {
    /// The kind after which `status` is asked to stop: lockspaces.
    pub(crate) const LAST_WANTED: u32 = 3;
}

/// One record of a streamed answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) kind: StateKind,
    /// For a host its id.
    pub(crate) data32: u32,
    /// For a lockspace the own host id in it, for a host its timestamp.
    pub(crate) data64: u64,
    pub(crate) name: &'a [u8],
    /// `key=value` pairs, without the NUL at their end.
    pub(crate) text: &'a [u8],
}

impl<'a> State<'a> {
    /// Takes one record off the front, with the description that follows the text of a lockspace.
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self, Garbage> {
        let mut head = Cursor::new(cursor.take(STATE_BYTES, "a state record")?);
        let kind = match head.u32("a state record")? {
            1 => StateKind::Daemon,
            2 => StateKind::Client,
            3 => StateKind::Lockspace,
            5 => StateKind::Host,
            other => return Err(Garbage::Kind(other)),
        };
        let _flags = head.u32("a state record")?;
        let data32 = head.u32("a state record")?;
        let _padding = head.u32("a state record")?;
        let data64 = head.u64("a state record")?;
        let name = until_nul(head.take(NAME_BYTES, "a state record")?);
        let length = usize::try_from(head.u32("a state record")?).unwrap_or(usize::MAX);
        if length == 0 || length > MOST_TEXT {
            return Err(Garbage::TextLength(length));
        }
        let text = match cursor.take(length, "the text of a state record")?.split_last() {
            Some((0, text)) if !text.contains(&0) => text,
            _ => return Err(Garbage::TextEnd),
        };
        if kind == StateKind::Lockspace {
            let described =
                until_nul(&cursor.take(LOCKSPACE_BYTES, "the description of a lockspace")?[..NAME_BYTES]);
            if described != name {
                return Err(Garbage::Contradiction("the two names of a lockspace"));
            }
        }
        Ok(Self { kind, data32, data64, name, text })
    }
}

/// A name up to its first NUL: what lies behind it is left over from an earlier one.
pub(crate) fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|b| *b == 0).next().unwrap_or(name)
}
