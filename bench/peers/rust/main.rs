//! Two crates: rustpeers ROLE DIRECTORY KEY=VALUE... which=okaywal|commitlog. The loops are those
//! of loops.py.
use commitlog::message::MessageSet;
use std::collections::HashMap;
use std::fs::{read_dir, File};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

struct Given(HashMap<String, String>);

impl Given {
    fn number(&self, name: &str) -> f64 {
        self.0.get(name).map_or(0.0, |text| text.parse().unwrap())
    }
}

fn percentiles(mut taken: Vec<u64>, per_s: f64) {
    taken.sort_unstable();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize];
    let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
    println!(r#"{{"p50": {p50}, "p99": {p99}, "p999": {p999}, "per_s": {per_s}}}"#);
}

fn median(mut each: Vec<f64>) {
    each.sort_by(f64::total_cmp);
    println!(r#"{{"ns": {}}}"#, each[each.len() / 2]);
}

/// The crate's own flush() flushes only its index.
fn force_files(path: &str) {
    for entry in read_dir(path).unwrap() {
        File::open(entry.unwrap().path()).unwrap().sync_data().unwrap();
    }
}

/// `measured` runs after `warm` runs that do not count; `run` returns what it is measured by.
fn runs<F: FnMut() -> f64>(given: &Given, measured: &str, mut run: F) {
    for _ in 0..given.number("warm") as usize {
        run();
    }
    median((0..given.number(measured) as usize).map(|_| run()).collect());
}

fn pace<F: FnMut()>(rate: f64, ms: f64, mut append: F) -> Vec<u64> {
    let mut taken = vec![1u64; (rate * ms / 1e3) as usize];
    let began = Instant::now() + Duration::from_millis(50);
    for (index, one) in taken.iter_mut().enumerate() {
        let due = began + Duration::from_nanos((index as f64 * (1e9 / rate)) as u64);
        while Instant::now() < due {}
        append();
        *one = due.elapsed().as_nanos() as u64;
    }
    taken
}

fn commit_log(role: &str, path: &str, given: &Given, value: &[u8]) {
    let mut log = commitlog::CommitLog::new(commitlog::LogOptions::new(path)).unwrap();
    let records = given.number("records");
    match role {
        "burst" => runs(given, "bursts", || {
            let began = Instant::now();
            for _ in 0..records as usize {
                log.append_msg(value).unwrap();
            }
            let took = began.elapsed().as_nanos() as f64;
            force_files(path);
            std::thread::sleep(Duration::from_millis(10));
            took / records
        }),
        "paced" => {
            let mut append = || {
                log.append_msg(value).unwrap();
            };
            pace(given.number("rate"), given.number("warm_ms"), &mut append);
            percentiles(pace(given.number("rate"), given.number("ms"), &mut append), 0.0);
        }
        "sustained" => {
            let count = given.number("bytes") as usize / value.len();
            let began = Instant::now();
            for _ in 0..count {
                log.append_msg(value).unwrap();
            }
            force_files(path);
            let took = began.elapsed().as_nanos() as f64;
            println!(r#"{{"mb_s": {}}}"#, (count * value.len()) as f64 * 1e3 / took);
        }
        "read" => {
            for _ in 0..records as usize {
                log.append_msg(value).unwrap();
            }
            runs(given, "passes", || read_all(&log, records as u64));
        }
        _ => panic!("no role {role}"),
    }
}

fn read_all(log: &commitlog::CommitLog, records: u64) -> f64 {
    let began = Instant::now();
    let (mut at, mut sum) = (0u64, 0u64);
    while at < records {
        let messages = log.read(at, commitlog::ReadLimit::max_bytes(1 << 20)).unwrap();
        for message in messages.iter() {
            sum += message.payload()[0] as u64 + message.verify_hash() as u64;
            at = message.offset() + 1;
        }
    }
    std::hint::black_box(sum);
    began.elapsed().as_nanos() as f64 / records as f64
}

fn sync_loop(
    log: okaywal::WriteAheadLog,
    given: &Given,
    barrier: &Barrier,
    value: &[u8],
) -> Vec<u64> {
    let append = || {
        let mut entry = log.begin_entry().unwrap();
        entry.write_chunk(value).unwrap();
        entry.commit().unwrap();
    };
    for _ in 0..given.number("warm_appends") as usize {
        append();
    }
    let mut taken = Vec::with_capacity(1 << 20);
    barrier.wait();
    let mut began = Instant::now();
    let deadline = began + Duration::from_millis(given.number("ms") as u64);
    while began < deadline {
        append();
        let ended = Instant::now();
        taken.push((ended - began).as_nanos() as u64);
        began = ended;
    }
    taken
}

fn okaywal_sync(path: &str, given: &Given, value: &[u8]) {
    let log = okaywal::Configuration::default_for(path)
        .preallocate_bytes(64 << 20)
        .checkpoint_after_bytes(60 << 20)
        .open(okaywal::LogVoid)
        .unwrap();
    let threads = given.number("threads") as usize;
    let barrier = Arc::new(Barrier::new(threads));
    let taken: Vec<u64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let (log, barrier) = (log.clone(), barrier.clone());
                scope.spawn(move || sync_loop(log, given, &barrier, value))
            })
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let per_s = taken.len() as f64 / (given.number("ms") / 1e3);
    percentiles(taken, per_s);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let pairs = arguments[3..].iter().map(|one| one.split_once('=').unwrap());
    let given = Given(pairs.map(|(name, text)| (name.into(), text.into())).collect());
    let size = given.number("size") as u64;
    let value: Vec<u8> = (0..size).map(|i| (i * 2654435761 >> 13) as u8).collect();
    let path = format!("{}/log", arguments[2]);
    match (given.0["which"].as_str(), arguments[1].as_str()) {
        ("okaywal", "sync") => okaywal_sync(&path, &given, &value),
        ("commitlog", role) => commit_log(role, &path, &given, &value),
        other => panic!("no {other:?}"),
    }
    std::process::exit(0); // a checkpoint in the background does not end by itself
}
