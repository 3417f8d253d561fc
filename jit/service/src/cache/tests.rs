//! The cache against what happens to folders: damage, strangers, crowds, too little room.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::{TempDir, tempdir};

fn key(number: usize) -> Key {
    Key::of("test", &[&number.to_le_bytes()])
}

fn open() -> (TempDir, Cache) {
    let folder = tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("a/b"), 1 << 20).unwrap();
    (folder, cache)
}

/// All entries' bytes, and files in all.
fn contents(cache: &Cache) -> (u64, usize) {
    let files = (0..SHARES).flat_map(|share| fs::read_dir(cache.share(share)).unwrap());
    let sizes: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    (sizes.iter().sum(), sizes.len())
}

#[test]
fn what_is_kept_is_found_also_by_others() {
    let (folder, cache) = open();
    assert_eq!(cache.find(&key(1)), None);
    cache.keep(&key(1), b"one");
    cache.keep(&key(2), b"");
    cache.keep(&key(1), b"one again");
    let other = Cache::open(&folder.path().join("a/b"), 1 << 20).unwrap();
    assert_eq!(other.find(&key(1)).as_deref(), Some(&b"one again"[..]));
    assert_eq!(other.find(&key(2)).as_deref(), Some(&b""[..]));
    assert_eq!(other.find(&key(3)), None);
    assert_eq!(fs::metadata(&cache.folder).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn keys_tell_parts_and_kinds_apart() {
    let keys = [
        Key::of("a", &[b"b"]),
        Key::of("ab", &[]),
        Key::of("a", &[b"b", b""]),
        Key::of("a", &[b"", b"b"]),
        Key::of("", &[b"a", b"b"]),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(index));
    }
}

#[test]
fn damaged_entries_are_not_found_and_go() {
    let (_folder, cache) = open();
    cache.keep(&key(1), b"answer");
    let whole = fs::read(cache.path(&key(1))).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    damaged.push([&whole[..], b"x"].concat());
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        damaged.push(bytes);
    }
    for bytes in damaged {
        fs::write(cache.path(&key(1)), bytes).unwrap();
        assert_eq!(cache.find(&key(1)), None);
        assert!(!cache.path(&key(1)).exists());
    }
    // Another question's answer.
    fs::write(cache.path(&key(2)), whole).unwrap();
    assert_eq!(cache.find(&key(2)), None);
}

#[test]
fn strangers_are_not_believed() {
    let (folder, cache) = open();
    cache.keep(&key(1), b"answer");
    let path = cache.path(&key(1));
    let mode = |mode| fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o666);
    assert_eq!(cache.find(&key(1)), None);
    mode(0o600);
    assert!(cache.find(&key(1)).is_some());
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(cache.find(&key(1)), None);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(cache.find(&key(1)), None);
    cache.keep(&key(1), b"answer"); // Can't: a folder is in the way.
    assert_eq!(contents(&cache).1, 1, "and nothing is left of the attempt");

    let open = |folder: &Path| Cache::open(folder, 1 << 20).map(drop);
    fs::set_permissions(&cache.folder, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(open(&cache.folder).unwrap_err().contains("others"));
    assert!(open(&elsewhere).is_err(), "a file is no folder");
    assert!(open(Path::new("/proc/nowhere")).is_err());
}

#[test]
fn old_entries_make_room_for_new_ones() {
    let (_folder, cache) = open();
    let answer = vec![7; 10_000];
    for number in 0..500 {
        cache.keep(&key(number), &answer);
    }
    let (bytes, files) = contents(&cache);
    assert!(bytes <= 1 << 20 && files > 20, "{bytes} bytes in {files} files");
    // Entries of one share, of which the first is in use: it stays.
    let share: Vec<Key> = (500..10_000).map(key).filter(|key| key.share() == 3).take(50).collect();
    cache.keep(&share[0], &answer);
    let long_ago = SystemTime::now() - Duration::from_secs(1000);
    for next in &share[1..] {
        for file in fs::read_dir(cache.share(3)).unwrap() {
            File::open(file.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
        assert!(cache.find(&share[0]).is_some());
        cache.keep(next, &answer);
    }
    cache.keep(&key(0), &vec![7; 1 << 20]);
    assert!(cache.find(&key(0)).is_none_or(|found| found.len() == 10_000), "too large to be kept");
}

#[test]
fn what_a_killed_process_left_goes_and_foreign_files_stay() {
    let (_folder, cache) = open();
    let put = |name: &str, age: u64| {
        let path = cache.share(key(1).share()).join(name);
        fs::write(&path, b"x").unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        File::open(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let (dead, alive, foreign) = (put("tmp.1.1", 5000), put("tmp.1.2", 1), put("letter.txt", 5000));
    cache.keep(&key(1), b"answer");
    assert!(!dead.exists() && alive.exists() && foreign.exists());
}

#[test]
fn threads_and_processes_share_it() {
    let (folder, cache) = open();
    let path = folder.path().join("a/b");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let cache = Cache::open(path, 1 << 20).unwrap();
                for round in 0..200 {
                    let number = (thread * 31 + round) % 40;
                    let answer = vec![number as u8; 2000 + 100 * number];
                    match cache.find(&key(number)) {
                        Some(found) => assert_eq!(found, answer),
                        None => cache.keep(&key(number), &answer),
                    }
                    if round % 17 == 0 {
                        cache.remove(&key(number));
                    }
                }
            });
        }
    });
    assert!(contents(&cache).1 <= 40, "no temporary files are left");
}

#[test]
fn who_looks_after_it_sees_all_of_it_and_changes_nothing() {
    let (folder, cache) = open();
    cache.keep(&key(1), b"one");
    cache.keep(&key(2), b"two");
    fs::write(cache.share(0).join("tmp.1.2"), "half").unwrap();
    fs::write(cache.share(0).join("mine.txt"), "another's").unwrap();
    let old = SystemTime::now() - Duration::from_secs(1000);
    File::options().write(true).open(cache.path(&key(2))).unwrap().set_modified(old).unwrap();
    let list = || Cache::entries(&folder.path().join("a/b"));
    let entries = list();
    assert_eq!(entries.len(), 3, "{entries:?}");
    assert_eq!(entries[2].path, cache.path(&key(2)), "the last used first");
    assert_eq!(entries[2].used, old);
    let whole = |entries: &[Entry]| entries.iter().filter(|entry| entry.is_whole()).count();
    assert_eq!((whole(&entries), entries.iter().filter(|entry| entry.is_temporary()).count()), (2, 1));
    assert!(entries.iter().all(|entry| entry.program().is_none()));
    fs::write(cache.path(&key(1)), "damaged").unwrap();
    assert_eq!(whole(&list()), 1);
    list().iter().for_each(|entry| entry.remove().unwrap());
    assert!(list().is_empty() && cache.share(0).join("mine.txt").exists());
    assert!(Cache::entries(Path::new("/nowhere/at/all")).is_empty());
}
