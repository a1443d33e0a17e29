//! The bytes of one file, charged to the sandbox.

use std::sync::Arc;

use super::Fault;
use crate::limits::Budgets;

/// The bytes of one file. Dropping them returns their space.
#[derive(Debug)]
pub(crate) struct Content {
    /// Shared with a checkpoint that is being read; the next change then copies it.
    bytes: Arc<Vec<u8>>,
    charged: u64,
    budgets: Arc<Budgets>,
}

impl Content {
    pub(crate) fn new(budgets: Arc<Budgets>) -> Content {
        Content { bytes: Arc::default(), charged: 0, budgets }
    }

    pub(crate) fn len(&self) -> u64 {
        length(self.bytes.len())
    }

    /// The bytes from an offset on, at most `most`.
    pub(crate) fn read(&self, offset: u64, most: usize) -> &[u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let end = start.saturating_add(most).min(self.bytes.len());
        &self.bytes[start..end]
    }

    /// The bytes as they are now.
    pub(crate) fn share(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    /// Writes all bytes or none. Bytes before the offset that were not written are zero.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let start = usize::try_from(offset).map_err(|_| Fault::Full)?;
        let end = start.checked_add(bytes.len()).ok_or(Fault::Full)?;
        let content = self.reserve(end)?;
        content.resize(end.max(content.len()), 0);
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, size: u64) -> Result<(), Fault> {
        let size = usize::try_from(size).map_err(|_| Fault::Full)?;
        if size > self.bytes.len() {
            self.reserve(size)?.resize(size, 0);
        } else {
            let content = Arc::make_mut(&mut self.bytes);
            content.truncate(size);
            content.shrink_to_fit();
            let capacity = length(content.capacity());
            self.release(capacity);
        }
        Ok(())
    }

    /// The bytes with room for `needed`, and some more for the next write if the budgets allow it.
    fn reserve(&mut self, needed: usize) -> Result<&mut Vec<u8>, Fault> {
        let mut target = needed;
        if needed > self.bytes.capacity() {
            let roomy = needed.saturating_add(self.bytes.capacity() / 4);
            let allowed = [roomy, needed].into_iter().find(|most| self.charge(length(*most)));
            target = allowed.ok_or(Fault::Full)?;
        }
        let content = Arc::make_mut(&mut self.bytes);
        // A copy of shared bytes has no room yet.
        content.reserve_exact(target.saturating_sub(content.len()));
        Ok(content)
    }

    fn charge(&mut self, capacity: u64) -> bool {
        let more = capacity.saturating_sub(self.charged);
        if !self.budgets.disk.take(more) {
            return false;
        }
        if !self.budgets.memory.take(more) {
            self.budgets.disk.give_back(more);
            return false;
        }
        self.charged += more;
        true
    }

    fn release(&mut self, capacity: u64) {
        let less = self.charged.saturating_sub(capacity);
        self.budgets.disk.give_back(less);
        self.budgets.memory.give_back(less);
        self.charged -= less;
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.release(0);
    }
}

fn length(size: usize) -> u64 {
    u64::try_from(size).expect("usize has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use stockade_policy::Policy;

    use super::*;

    fn budgets() -> Arc<Budgets> {
        let policy = "{defaults: {max_memory_mb: 8}, limits: {max_disk_mb: 1}}";
        let policy = Policy::parse_str("p", policy, "/".as_ref()).unwrap();
        Arc::new(Budgets::of(&policy))
    }

    #[test]
    fn file_takes_exactly_the_limit_and_no_byte_more() {
        let budgets = budgets();
        let mut content = Content::new(Arc::clone(&budgets));
        let chunk = vec![7; 64 << 10];
        for index in 0..16 {
            content.write(index * (64 << 10), &chunk).unwrap();
        }
        assert_eq!(content.write(1 << 20, b"x"), Err(Fault::Full));
        assert_eq!(content.len(), 1 << 20);
        assert_eq!(content.read((1 << 20) - 2, 10), [7, 7]);
        content.set_len(10).unwrap();
        content.write(12, b"ab").unwrap();
        assert_eq!(content.read(9, 100), [7, 0, 0, b'a', b'b']);
        drop(content);
        assert!(budgets.disk.take(1 << 20) && budgets.memory.take(8 << 20));
    }

    #[test]
    fn offset_beyond_every_limit_is_refused() {
        let mut content = Content::new(budgets());
        assert_eq!(content.write(u64::MAX, b"x"), Err(Fault::Full));
        assert_eq!(content.set_len(1 << 40), Err(Fault::Full));
        assert_eq!(content.len(), 0);
    }
}
