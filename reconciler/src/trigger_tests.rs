#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn hints_add_up() {
    let mut look = Look::default();
    let name = SourceName::parse("r-0123456789abcdef0123456789abcdef").unwrap();
    look.add(Hint::Source(name.clone()));
    look.add(Hint::Source(name.clone()));
    assert_eq!(look.sources.len(), 1);
    assert!(!look.everything);
    look.add(Hint::Lost);
    assert!(look.everything);
}

#[tokio::test]
async fn a_published_manifest_is_told_and_reading_it_is_not() {
    let volume = tempfile::tempdir().unwrap();
    let folder = volume.path().join("manifests");
    tandem_shared::publish::folder(&folder, tandem_shared::publish::Audience::Group).unwrap();
    let (looks, mut told) = mpsc::channel(8);
    let watching = tokio::spawn(watch_manifests(folder.clone(), looks));
    assert_eq!(told.recv().await, Some(Look::all()));
    let name = SourceName::parse("r-0123456789abcdef0123456789abcdef").unwrap();
    let file = folder.join(format!("{name}.json"));
    tandem_shared::publish::bytes(&file, b"{}", tandem_shared::publish::Audience::Group).unwrap();
    let look = told.recv().await.unwrap();
    assert_eq!(look.sources, [name.clone()].into());
    std::fs::read(&file).unwrap();
    let other = SourceName::parse("s-0123456789abcdef0123456789abcdef").unwrap();
    tandem_shared::publish::bytes(
        &folder.join(format!("{other}.json")),
        b"{}",
        tandem_shared::publish::Audience::Group,
    )
    .unwrap();
    let mut seen = BTreeSet::new();
    while !seen.contains(&other) {
        seen.extend(told.recv().await.unwrap().sources);
    }
    watching.abort();
}
