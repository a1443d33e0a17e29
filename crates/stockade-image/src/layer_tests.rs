use super::*;

fn whiteout(name: String) -> ArchiveEntry {
    let attributes =
        Attributes { mode: Some(0o644), user: Some(0), group: Some(0), modified: None };
    let kind = EntryKind::File { bytes: 0, executable: false };
    ArchiveEntry { name: name.into_bytes(), kind, attributes }
}

#[test]
fn whiteouts_are_stopped_before_they_fill_the_memory() {
    let above = "directory/".repeat(100);
    let mut checking = Checking::new("layer", u64::MAX);
    let wrong = (0_u64..).find_map(|number| {
        let entry = whiteout(format!("{above}.wh.{number}"));
        assert!(number < 1 << 16, "nothing stops them");
        checking.entry(&entry).err()
    });
    let is_expected =
        matches!(&wrong, Some(ImageError::Refused { refusal: Refusal::TooLarge, .. }));
    assert!(is_expected, "{wrong:?}");
    let bytes = |it: &Whiteout| it.path.capacity() + size_of::<Whiteout>();
    let kept: usize = checking.whiteouts.iter().map(bytes).sum();
    assert!(kept <= MOST_WHITEOUTS, "{kept}");
    assert!(checking.whiteouts.len() > 10_000, "many small ones are usual");
}
